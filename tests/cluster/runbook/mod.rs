//! The pages of the runbook, played against real nodes. A test makes the trouble of its page, types each command of the page, and
//! compares what is printed.
//!
//! `UPDATE_EXPECT=1 cargo test --test cluster runbook` writes what is printed into the pages instead. Review the diff.

mod page;
mod site;
mod volatile;

use std::fs;

use self::{
    page::Page,
    site::{Site, Trouble},
};
use crate::common::{Rng, flip, written_to};

/// The sections of a page.
const NOTICE: &str = "How you notice it";
const TYPE: &str = "What to type";
const OVER: &str = "How you know it is over";

/// The header of a log segment, in bytes.
const HEAD: usize = 4_096;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runbook_of_a_lost_node() {
    let mut page = Page::open("lost-node");
    let mut site = Site::three(Trouble::None).await;
    let sold = site.sell().await;
    site.kill("three");
    site.lose_disk("three");
    for section in [NOTICE, TYPE, OVER] {
        page.play(section, &mut site).await;
    }
    site.has_sold(&sold, &["one", "two", "three"]).await;
    page.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runbook_of_a_full_disk() {
    let mut page = Page::open("full-disk");
    let mut site = Site::three(Trouble::Disks).await;
    let sold = site.sell().await;
    site.fill_disk("two").await;
    page.play(NOTICE, &mut site).await;
    let more = site.sell().await;
    page.play(TYPE, &mut site).await;
    site.make_room("two");
    page.play(OVER, &mut site).await;
    site.is_whole().await;
    for order in [&sold, &more] {
        site.has_sold(order, &["one", "two", "three"]).await;
    }
    page.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runbook_of_a_damaged_disk() {
    let mut page = Page::open("damaged-disk");
    let mut site = Site::three(Trouble::None).await;
    let sold = site.sell().await;
    site.kill("two");
    let segments = site.segments("two");
    let segment = segments.iter().find(|segment| written_to(segment) > 4 * HEAD).expect("a used segment");
    // Not at its end, because the last record may look like a torn write.
    let (written, end) = (fs::read(segment).expect("a segment"), written_to(segment));
    let mut rng = Rng::of_test("runbook_of_a_damaged_disk");
    loop {
        flip(segment, end / 3 + rng.below(end / 6), &mut rng);
        // The header of a record has another checksum, and the page names one of them.
        let said = site.run("two", "boxoffice inspect /var/lib/boxoffice").await;
        if said.contains(": its checksum does not match") {
            break;
        }
        fs::write(segment, &written).expect("a segment as it was");
    }
    site.serve("two");
    for section in [NOTICE, TYPE, OVER] {
        page.play(section, &mut site).await;
    }
    site.has_sold(&sold, &["one", "two", "three"]).await;
    page.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runbook_of_a_wrong_clock() {
    let mut page = Page::open("wrong-clock");
    let mut site = Site::three(Trouble::Clocks).await;
    let sold = site.sell().await;
    site.set_clock("three", 3_600);
    page.play(NOTICE, &mut site).await;
    page.play(TYPE, &mut site).await;
    site.set_clock("three", 0);
    page.play(OVER, &mut site).await;
    site.is_whole().await;
    site.has_sold(&sold, &["one", "two", "three"]).await;
    page.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runbook_of_a_lost_majority() {
    let mut page = Page::open("lost-majority");
    let mut site = Site::three(Trouble::None).await;
    let sold = site.sell().await;
    page.play("Before it happens", &mut site).await;
    let late = site.sell().await;
    site.kill("two");
    site.kill("three");
    page.play(NOTICE, &mut site).await;
    site.lose_disk("three");
    page.play("If one directory can be brought back", &mut site).await;
    for order in [&sold, &late] {
        site.has_sold(order, &["one", "two"]).await;
    }
    site.kill("two");
    site.lose_disk("two");
    page.play("If only the backup is left", &mut site).await;
    page.play(OVER, &mut site).await;
    site.has_sold(&sold, &["one", "two", "three"]).await;
    // What the page says is lost.
    site.lacks(&late, "one").await;
    page.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runbook_of_a_restore() {
    let mut page = Page::open("restore");
    let mut site = Site::alone().await;
    let sold = site.sell().await;
    page.play("Before it happens", &mut site).await;
    site.note_instant().await;
    let late = site.sell().await;
    site.run("one", "boxoffice admin cancel hamlet-0 --reason 'the lead is ill'").await;
    for section in [NOTICE, TYPE, OVER] {
        page.play(section, &mut site).await;
    }
    site.has_sold(&sold, &["one"]).await;
    site.lacks(&late, "one").await;
    page.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runbook_of_growing_shards() {
    let mut page = Page::open("growing-shards");
    let mut site = Site::alone().await;
    let sold = site.sell().await;
    for section in [NOTICE, TYPE, OVER] {
        page.play(section, &mut site).await;
    }
    site.has_sold(&sold, &["one"]).await;
    page.end();
}
