//! What clients read: carts, orders, sessions and everything else that answers and feeds tell. The server writes them from the core's
//! values of the same names, whose stored form is another matter.

pub use boxoffice_core::{
    answer::{
        CodeView, NamedInTerms, SaleMark, SeatLabels, SessionChanged, SessionNames, SessionSale, TermsChange,
        TermsNames,
    },
    portion::TaxSum,
};

pub use crate::repr::{
    answer::{
        At, CartState, CartView, Ended, HallView, Held, MapView, SessionEntry, SessionView, TakenLine, Taker,
        TitleView, VenueChange, VenueEntry, VenueView, VenuesPage,
    },
    audit::{
        AsOf, CartAudit, Claim, CodeAudit, CustomerAudit, HoldView, HolderView, ProductAudit, ResourceAudit, SaleView,
        SessionAudit,
    },
    calendar::{BookingState, BookingView, ResourceView},
    line::LineView,
    order::{Order, Purchase, PurchasedItem, PurchasesPage},
    payment::{PaymentStatus, RefundRecord, RefundStatus, VoidRecord, VoidStatus},
    stock::ProductView,
};
