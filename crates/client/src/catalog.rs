//! Catalogue and operator ops: halls, titles, products, resources, purchases, audits, history and settlements.

use std::sync::Arc;

use boxoffice_core::{
    command::{CodeDetails, ProductDetails, ResourceDetails, Title},
    id::{CartId, Entity, Id, OrderId},
    layout::Layout,
    seat::Seat,
    text::{Name, OptionalReason, Reason, Text},
    time::Timestamp,
};
use boxoffice_wire::{
    Op,
    body::{self, PurchaseCursor},
    call::BackupPart,
    city::CityPage,
    reply::{Available, BookingPage, FreeSlots, TitlePage},
    status::{BackupPiece, BackupPlaces, HistoryPage, ShardIndex},
    view::{
        AsOf, CartView, CodeAudit, CodeView, CustomerAudit, ProductAudit, ProductView, PurchasesPage, RefundRecord,
        ResourceAudit, ResourceView, SessionChanged, TitleView, VenuesPage,
    },
};
use smol_str::SmolStr;

use crate::{
    client::Client,
    error::{Error, Reply},
    live::{LivePurchases, LiveResource, LiveStock},
    op_request::OpRequest,
    watch::Watch,
};

/// The filter of a search for sessions in a city.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CitySearch {
    /// Only this title.
    pub title: Option<Id>,
    /// Only sessions that start at this time or later.
    pub from: Option<Timestamp>,
    /// Only sessions that start before this time.
    pub to: Option<Timestamp>,
    /// The maximum number of sessions in a page.
    pub limit: Option<u32>,
    /// The cursor from the answer with the page before.
    pub cursor: Option<SmolStr>,
}

impl Client {
    /// `venue.search`: venues by city and name, or nearest first. Returns a page and the cursor of the next page.
    pub async fn venue_search(&self, search: &body::VenueSearch) -> Result<Reply<VenuesPage>, Error> {
        self.ask(search).await
    }

    /// `hall.put`: creates or changes a hall. Existing sessions keep the layout with which they were created.
    pub fn hall_put(
        &self,
        venue: &Id,
        id: &Id,
        name: impl AsRef<str>,
        layout: Arc<Layout>,
    ) -> OpRequest<body::HallPut> {
        let body = body::HallPut::of(venue.clone(), id.clone(), Name::as_said(name.as_ref()), layout);
        OpRequest::new(self, Entity::Venue(venue.clone()), body)
    }

    /// `title.put`: creates or changes a title.
    pub async fn title_put(&self, id: &Id, title: Title) -> Result<Reply<()>, Error> {
        self.ask(&body::TitlePut::new(id.clone(), title)).await
    }

    /// `title.get`.
    pub async fn title_get(&self, id: &Id) -> Result<Reply<TitleView>, Error> {
        self.ask(&body::TitleGet(body::Get::of(id.clone()))).await
    }

    /// `title.search`: titles by name. Returns a page and the cursor of the next page.
    pub async fn title_search(&self, search: &body::TitleSearch) -> Result<Reply<TitlePage>, Error> {
        self.ask(search).await
    }

    /// `session.search` over all venues of a city, by start. Returns a page and the cursor of the next page.
    pub async fn session_search_city(
        &self,
        city: impl AsRef<str>,
        search: CitySearch,
    ) -> Result<Reply<CityPage>, Error> {
        let CitySearch { title, from, to, limit, cursor } = search;
        let city = Some(Name::as_said(city.as_ref()));
        let body = body::SessionSearch { city, title, from, to, limit, cursor, ..Default::default() };
        self.send(Op::SessionSearch, &body).await
    }

    /// `session.change`: changes prices, areas, limits, texts and offers. What is held keeps its terms.
    pub async fn session_change(&self, change: &body::SessionChange) -> Result<Reply<SessionChanged>, Error> {
        self.ask_of(&Entity::Session(change.id.clone()), change).await
    }

    /// `session.cancel`: cancels a session. Its holds are released and its orders refunded.
    pub async fn session_cancel(&self, id: &Id, reason: impl AsRef<str>) -> Result<Reply<()>, Error> {
        let body = body::SessionCancel::of(id.clone(), Reason::as_said(reason.as_ref()));
        self.ask_of(&Entity::Session(id.clone()), &body).await
    }

    /// `product.put`: creates or changes a product.
    pub async fn product_put(&self, id: &Id, details: ProductDetails) -> Result<Reply<ProductView>, Error> {
        self.ask_of(&Entity::Product(id.clone()), &body::ProductPut::new(id.clone(), details)).await
    }

    /// `product.get`: a product's details, and its units by state.
    pub async fn product_get(&self, id: &Id) -> Result<Reply<ProductView>, Error> {
        self.ask_of(&Entity::Product(id.clone()), &body::ProductGet(body::Get::of(id.clone()))).await
    }

    /// `code.put`: creates or changes a code, which lets its buyers buy under the offers of its group.
    pub async fn code_put(&self, code: &Id, details: CodeDetails) -> Result<Reply<CodeView>, Error> {
        self.ask(&body::CodePut::new(code.clone(), details)).await
    }

    /// `code.get`: how often a code was used.
    pub async fn code_get(&self, code: &Id) -> Result<Reply<CodeView>, Error> {
        self.ask(&body::CodeGet { code: code.clone() }).await
    }

    /// `resource.put`: creates or changes a resource. Existing bookings stay.
    pub async fn resource_put(&self, id: &Id, details: ResourceDetails) -> Result<Reply<ResourceView>, Error> {
        self.ask_of(&Entity::Resource(id.clone()), &body::ResourcePut::new(id.clone(), details)).await
    }

    /// `resource.get`: a resource's details, and how many bookings it has.
    pub async fn resource_get(&self, id: &Id) -> Result<Reply<ResourceView>, Error> {
        self.ask_of(&Entity::Resource(id.clone()), &body::ResourceGet(body::Get::of(id.clone()))).await
    }

    /// `resource.reserve`: books time without a cart, once or repeatedly. All of it is booked or nothing.
    ///
    /// # Errors
    /// `slot_taken` names every conflict.
    pub fn resource_reserve(&self, body: body::ResourceReserve) -> OpRequest<body::ResourceReserve> {
        OpRequest::new(self, Entity::Resource(body.resource.clone()), body)
    }

    /// `resource.cancel`: ends a booking by its name, or a whole series. A booking that a cart made (`hold:…`) is answered at once.
    /// It ends when its cart has released the line or refunded it, after a checkout that is under way.
    pub async fn resource_cancel(&self, resource: &Id, booking: &Id, series: bool) -> Result<Reply<()>, Error> {
        let body = body::ResourceCancel { resource: resource.clone(), booking: booking.clone(), series };
        self.ask_of(&Entity::Resource(resource.clone()), &body).await
    }

    /// `resource.move`: moves a booking to another time. If the new time is not available, the old time stays.
    pub async fn resource_move(&self, body: &body::ResourceMove) -> Result<Reply<BookingPage>, Error> {
        self.ask_of(&Entity::Resource(body.resource.clone()), body).await
    }

    /// `resource.is_available`: whether a time could be booked now, and the conflicts if not.
    pub async fn resource_is_available(&self, body: &body::ResourceIsAvailable) -> Result<Reply<Available>, Error> {
        self.ask_of(&Entity::Resource(body.resource.clone()), body).await
    }

    /// `resource.bookings`: the bookings that overlap a time. Returns a page and the cursor of the next page.
    pub async fn resource_bookings(&self, search: &body::ResourceBookings) -> Result<Reply<BookingPage>, Error> {
        self.ask(search).await
    }

    /// `resource.free_slots`: the first free slots of a length between two instants.
    pub async fn resource_free_slots(&self, search: &body::ResourceFreeSlots) -> Result<Reply<FreeSlots>, Error> {
        self.ask(search).await
    }

    /// `order.refund`: refunds lines of an order and puts them on sale again. `None` refunds all lines that are left.
    pub async fn order_refund(
        &self,
        order: OrderId,
        lines: Option<Vec<u32>>,
        reason: impl AsRef<str>,
    ) -> Result<Reply<RefundRecord>, Error> {
        let lines = lines.map(|lines| lines.into_iter().collect());
        self.ask(&body::OrderRefund { order, lines, reason: Reason::as_said(reason.as_ref()) }).await
    }

    /// `customer.purchases`: the orders of a customer after a cursor, at most `limit`. In another epoch than the cursor's it begins
    /// with the first order.
    pub async fn purchases(
        &self,
        customer: &Id,
        PurchaseCursor { epoch, cursor }: PurchaseCursor,
        limit: Option<u32>,
    ) -> Result<Reply<PurchasesPage>, Error> {
        let body = body::CustomerPurchases { customer: customer.clone(), cursor: Some(cursor), epoch, limit };
        self.ask_of(&Entity::Customer(customer.clone()), &body).await
    }

    /// `watch`: every purchase of a customer after a cursor, each once, across reconnects. In another epoch than the cursor's it begins
    /// with the first purchase.
    pub fn watch_purchases(&self, customer: &Id, cursor: PurchaseCursor) -> Watch<LivePurchases> {
        // Without a state it begins with a snapshot, which has the epoch.
        let state = (cursor != PurchaseCursor::default()).then(|| LivePurchases::from_cursor(cursor));
        Watch::new(self.clone(), Entity::Customer(customer.clone()), None, state)
    }

    /// `watch`: follows a product's units by state.
    pub fn watch_product(&self, product: &Id) -> Watch<LiveStock> {
        Watch::new(self.clone(), Entity::Product(product.clone()), None, None)
    }

    /// `watch`: follows the days on which a resource's bookings change.
    pub fn watch_resource(&self, resource: &Id) -> Watch<LiveResource> {
        Watch::new(self.clone(), Entity::Resource(resource.clone()), None, None)
    }

    /// `admin.audit` of a product.
    pub async fn audit_product(&self, id: &Id) -> Result<Reply<ProductAudit>, Error> {
        self.audit(Some(Entity::Product(id.clone()))).await
    }

    /// `admin.audit` of a resource.
    pub async fn audit_resource(&self, id: &Id) -> Result<Reply<ResourceAudit>, Error> {
        self.audit(Some(Entity::Resource(id.clone()))).await
    }

    /// `admin.audit` of a customer.
    pub async fn audit_customer(&self, id: &Id) -> Result<Reply<CustomerAudit>, Error> {
        self.audit(Some(Entity::Customer(id.clone()))).await
    }

    /// `admin.audit` of a code, by the id of its entity, which is not the code.
    pub async fn audit_code(&self, id: &Id) -> Result<Reply<CodeAudit>, Error> {
        self.audit(Some(Entity::Code(id.clone()))).await
    }

    /// `admin.history`: what happened to an entity, or to one seat of a session. Returns the newest page. With
    /// `before`, the cursor of another page, it returns the page with older events.
    pub async fn history(
        &self,
        entity: Entity,
        seat: Option<Seat>,
        limit: Option<u32>,
        before: Option<u64>,
    ) -> Result<Reply<HistoryPage>, Error> {
        self.ask(&body::History { entity, seat, limit, before }).await
    }

    /// `admin.backup`: the shards and the log of the node, behind the last entry of each shard that is given. With `mark`, the mark is
    /// raised.
    pub async fn backup(&self, after: Vec<(u16, u64)>, mark: bool) -> Result<Reply<BackupPlaces>, Error> {
        let after = after.into_iter().map(|(shard, index)| ShardIndex { shard, index }).collect();
        self.ask(&body::AdminBackup { after, mark }).await
    }

    /// `admin.backup_read`: a piece of a part of the node's data, from the `next` of the piece before on.
    pub async fn backup_read(&self, part: BackupPart, from: Option<SmolStr>) -> Result<Reply<BackupPiece>, Error> {
        let from = from.map(Text::as_said);
        let body = match part {
            BackupPart::Snapshot(shard) => body::AdminBackupRead { snapshot: Some(shard), from, ..Default::default() },
            BackupPart::Records(shard) => body::AdminBackupRead { records: Some(shard), from, ..Default::default() },
            BackupPart::Segment(number) => body::AdminBackupRead { segment: Some(number), from, ..Default::default() },
        };
        self.ask(&body).await
    }

    /// `admin.map`: a session, product or resource as it was at an instant.
    pub async fn as_of(&self, entity: Entity, at: Timestamp) -> Result<Reply<AsOf>, Error> {
        self.ask(&body::AdminMap { entity, at }).await
    }

    /// `admin.release`: releases a line of any cart. The cart's owner sees the reason.
    pub async fn admin_release(&self, cart: CartId, line: u32, reason: &str) -> Result<Reply<CartView>, Error> {
        self.ask(&body::AdminRelease { cart, line, reason: OptionalReason::as_said(reason) }).await
    }

    /// `admin.checkout_cancel`: ends the attempt to pay of any cart. Needs a node that speaks protocol 1.5.
    pub async fn admin_checkout_cancel(&self, cart: CartId) -> Result<Reply<CartView>, Error> {
        self.ask(&body::AdminCheckoutCancel { cart }).await
    }

    /// `admin.settle`: sets the outcome of a payment attempt that the gateway does not report. `outcome` is a word of the
    /// protocol. `authorized` comes with the gateway's name for the authorization, `refunded` with the number of the refund.
    pub async fn admin_settle(
        &self,
        cart: CartId,
        attempt: u32,
        outcome: &str,
        reference: Option<&str>,
        refund: Option<u32>,
    ) -> Result<Reply<()>, Error> {
        let reference = reference.map(Text::as_said);
        self.ask(&body::AdminSettle { cart, attempt, outcome: outcome.into(), reference, refund }).await
    }
}
