//! Carts over products, places and time: what each of the systems this one follows asks for, as stories.

use expect_test::expect;

use crate::script::check;

#[test]
fn example_5_one_of_a_hundred() {
    check(
        "product p 100 2.50
         a hold p 1
         a checkout
         a order",
        expect![[r#""#]],
    );
}

#[test]
fn example_6_up_down_too_much_and_away() {
    check(
        "product p 100 2.50
         a hold p 2
         a set 1 4
         a set 1 1000
         a get
         a set 1 1
         a set 1 1
         a set 1 0
         a get
         a hold p 3
         a release 2",
        expect![[r#""#]],
    );
}

#[test]
fn example_7_the_last_unit() {
    check(
        "product p 1 1.00
         a hold p 1
         b hold p 1
         b hold p 2
         b get",
        expect![[r#""#]],
    );
}

#[test]
fn example_8_more_places_than_there_are() {
    check(
        "hall aa
         session s with stand 495 5.00
         a hold s stand 5
         a checkout
         b hold s stand 500
         b hold s stand 490",
        expect![[r#""#]],
    );
}

#[test]
fn example_9_only_what_is_old_expires() {
    check(
        "hall aa
         session s ttl 30 with stand 500 5.00
         b hold s stand 7
         wait 19
         c hold s stand 19
         wait 20
         a hold s stand 5
         wait 11",
        expect![[r#""#]],
    );
}

#[test]
fn example_10_authorized_sold_and_posted_once() {
    check(
        "hall aa
         session s ttl 30 with stand 500 5.00
         a hold s stand 5 for ann
         a pay
         last post ann
         last sell s
         ann
         bank",
        expect![[r#""#]],
    );
}

#[test]
fn example_11_one_pays_and_one_is_declined() {
    check(
        "product p 10 1.00
         a hold p 5
         b hold p 5
         bank authorize yes no
         a pay
         b pay
         b get
         bank",
        expect![[r#""#]],
    );
}

#[test]
fn example_12_touching_is_no_overlap() {
    check(
        "resource r 12.00
         a hold r 100 200
         b hold r 200 500
         c hold r 150 250
         c hold r 100 500
         a checkout
         b cancel
         c hold r 200 210
         c hold r 210 210",
        expect![[r#""#]],
    );
}

#[test]
fn example_13_no_instant_is_lost_at_the_end_of_a_day() {
    check(
        "resource r 12.00
         a hold r 79200 93600
         b hold r 86399 86401
         b hold r 93600 93601",
        expect![[r#""#]],
    );
}

#[test]
fn example_15_late_validation_names_who_fell_short() {
    check(
        "product p 100 1.00 late
         product q 100 2.00 late
         a hold p 1000 + q 10
         a checkout as x
         a get
         b hold p 500 + q 200
         b checkout
         a set 1 5
         a checkout as x
         a order",
        expect![[r#""#]],
    );
}

#[test]
fn the_same_product_is_one_line() {
    check(
        "product p 100 2.50
         a hold p 1
         a hold p 2 + p 3
         a get
         a hold p 99
         a get
         b hold p 1 + p 2
         b get
         a checkout
         b checkout",
        expect![[r#""#]],
    );
}

#[test]
fn places_of_one_area_are_one_line_and_areas_are_not() {
    check(
        "hall aa
         session s with stand 10 5.00 with hill 5 2.00
         a hold s stand 2 + s hill 1 + s 0.0
         a hold s stand 1 + s hill 2 + s 0.1
         a set 1 9
         a set 1 11
         a set 3 2
         a release 2
         a checkout",
        expect![[r#""#]],
    );
}

#[test]
fn quantities_that_cannot_be() {
    check(
        "product p 100 2.50
         resource r 1.00
         hall aa
         session s with stand 10 5.00
         a hold p 0
         a hold p 4294967295
         a hold p 1000000 + p 1
         a hold p 1 + r 0 100 + s 0.0
         a set 1 4294967295
         a set 2 2
         a set 3 2
         a set 9 1
         a set 1 0
         a set 1 1
         a hold s meadow 1
         a hold s stand 0
         a get",
        expect![[r#""#]],
    );
}

#[test]
fn requests_that_come_again_change_nothing() {
    check(
        "product p 100 2.50
         a hold p 3 as h
         a set 1 3 as same
         a set 1 5 as up
         a set 1 3 as same
         a hold p 3 as h
         a set 1 2 as down
         a set 1 5 as up
         a set 1 2 as down
         a get
         a set 1 2 as up
         a release 1 as give
         a set 1 2 as down
         a release 1 as give
         a hold p 4
         a pay as pay
         a pay as pay
         a refund 2 as back
         a refund 2 as back
         a refund as back
         a refund 2
         bank",
        expect![[r#""#]],
    );
}

#[test]
fn all_or_nothing_over_everything() {
    check(
        "hall aaaa
         session s with stand 5 5.00
         product p 3 1.00
         resource r 12.00
         a hold s 0.0 + s stand 2 + p 1 + r 100 200
         b hold s 0.0 0.1 + s stand 4 + p 3 + r 150 160
         b get
         b hold s 0.1 + s stand 3 + p 2 + r 200 300
         a checkout
         wait 1800
         b get",
        expect![[r#""#]],
    );
}

#[test]
fn a_room_and_a_projector_both_or_none() {
    check(
        "resource r 12.00
         resource x 3.00
         b hold x 150 160
         a hold r 100 200 + x 100 200
         b cancel
         a hold r 100 200 + x 100 200
         a checkout",
        expect![[r#""#]],
    );
}

#[test]
fn several_products_out_of_stock_are_named_together() {
    check(
        "product p 1 1.00
         product q 2 1.00
         a hold p 2 + q 3
         a hold p 1 + q 3
         a hold p 1 + q 2",
        expect![[r#""#]],
    );
}

#[test]
fn one_currency_a_cart() {
    check(
        "product p 5 1.00
         product q 5 1.00 currency USD
         a hold p 1 + q 1
         a hold p 1
         a hold q 1
         a set 1 2
         a checkout",
        expect![[r#""#]],
    );
}

#[test]
fn limits_of_an_order_count_all_lines_of_the_entity() {
    check(
        "hall aaaaaa
         session s with stand 10 5.00 order 4
         product p 100 1.00 order 3
         a hold s 0.0 0.1 + s stand 2
         a hold s 0.2
         a set 2 3
         a release 1 0.0
         a hold s 0.2
         a hold p 2
         a hold p 2
         a set 4 4
         a set 4 3
         b hold p 4",
        expect![[r#""#]],
    );
}

#[test]
fn a_quota_spans_carts_and_orders() {
    check(
        "product p 100 1.00 quota few 3
         hall aaaa
         session s quota few 3
         a hold p 2
         a hold p 2 for ann
         b hold s 0.0 0.1 for ann
         b hold s 0.0 for ann
         a set 1 3
         c hold p 1 for bob
         a checkout
         b cancel
         b hold p 2 for ann
         d hold p 1 for ann
         d hold p 1 for bob
         a refund
         d hold s 0.1 0.2 0.3 for ann
         ann",
        expect![[r#""#]],
    );
}

#[test]
fn a_quota_of_late_lines_is_taken_at_the_checkout() {
    check(
        "product p 100 1.00 late quota few 3
         a hold p 2
         a set 1 4
         a checkout
         a checkout for ann
         a set 1 3
         a checkout for ann
         b hold p 1 for ann
         b checkout",
        expect![[r#""#]],
    );
}

#[test]
fn the_shortest_time_to_live_of_all_lines() {
    check(
        "product p 9 1.00 ttl 10
         hall aaa
         session s
         a hold s 0.0
         a hold p 1
         wait 9
         a hold s 0.1
         a release 2
         a hold p 2
         wait 10
         a get",
        expect![[r#""#]],
    );
}

#[test]
fn paying_extends_the_life_once() {
    check(
        "product p 9 1.00 ttl 10
         a hold p 1
         wait 9
         bank authorize no no
         a pay keep
         wait 9
         a pay keep
         wait 0.999
         a get
         wait 0.001
         a get
         bank",
        expect![[r#""#]],
    );
}

#[test]
fn a_cart_that_is_being_paid_does_not_expire() {
    check(
        "product p 9 1.00 ttl 10
         bank shut
         a hold p 1
         a pay as pay
         wait 100
         a get
         a hold p 1
         a cancel
         a release 1
         a revoke 1
         bank open
         a pay as pay
         bank",
        expect![[r#""#]],
    );
}

#[test]
fn a_decline_that_comes_after_the_deadline_ends_the_cart() {
    check(
        "product p 9 1.00 ttl 10
         bank shut
         bank authorize no
         a hold p 1
         a pay keep
         wait 100
         bank open
         a get
         answers",
        expect![[r#""#]],
    );
}

#[test]
fn an_operator_gives_a_line_back() {
    check(
        "product p 9 1.00 quota few 3
         hall aaa
         session s
         a hold p 2 + s 0.0 0.1 for ann
         a revoke 1 as op
         a revoke 1 as op
         a revoke 1
         a revoke 2
         a checkout
         a get",
        expect![[r#""#]],
    );
}

#[test]
fn a_line_is_taken_while_it_grows() {
    check(
        "product p 9 1.00
         a hold p 2
         stop p
         a set 1 5
         a revoke 1
         go p
         answers
         a get
         a hold p 1",
        expect![[r#""#]],
    );
    check(
        "product p 9 1.00
         a hold p 2
         freeze p
         a set 1 5
         a revoke 1
         thaw p
         answers
         a get
         a hold p 1",
        expect![[r#""#]],
    );
}

#[test]
fn a_canceled_session_takes_everything_back() {
    check(
        "hall aaaa
         session s with stand 10 5.00
         product p 9 1.00
         a hold s 0.0 + p 1 for ann
         b hold s 0.1 + s stand 3 for bob
         c hold s 0.2 + p 2
         b pay
         bank shut
         c pay
         box cancel s
         a get
         b order
         bob
         bank open
         wait 2
         c order
         a hold s 0.3
         a checkout
         box cancel s
         bank",
        expect![[r#""#]],
    );
}

#[test]
fn a_canceled_session_asks_until_its_carts_hear() {
    check(
        "hall aaaa
         session s
         a hold s 0.0
         b hold s 0.1
         b checkout
         stop a
         box cancel s
         wait 3
         lose a
         crash s
         wait 3
         lose a
         wait 1
         go a
         wait 2
         a get
         b order",
        expect![[r#""#]],
    );
}

#[test]
fn a_refund_waits_for_the_sale() {
    check(
        "hall aaaa
         session s
         product p 9 1.00
         a hold s 0.0 0.1 + p 3 for ann
         stop s
         a pay
         wait 3
         answers
         a refund 1
         go s
         wait 1
         a order
         last sell s
         last refund s
         a refund
         a refund
         bank
         ann",
        expect![[r#""#]],
    );
}

#[test]
fn growth_does_not_outrank_what_is_not_committed() {
    check(
        "product p 9 1.00
         a hold p 4
         freeze a
         a set 1 2
         a set 1 3
         crash a
         thaw a
         a get
         a checkout",
        expect![[r#""#]],
    );
}

#[test]
fn a_second_grant_of_what_is_set_aside_for_a_checkout() {
    check(
        "product q 9 1.00 late quota few 5
         bank shut
         a hold q 2 for ann
         a pay
         last granted a
         again granted a
         bank open
         answers
         a get",
        expect![[r#""#]],
    );
}

#[test]
fn another_customers_quota_is_not_taken_for_this_ones() {
    check(
        "product p 9 1.00 quota few 3
         stop ann
         stop bob
         a hold p 1 for ann as h
         crash a
         a hold p 1 for bob as h
         go ann
         a get
         go bob
         answers
         a checkout
         wait 1900",
        expect![[r#""#]],
    );
}

#[test]
fn a_crash_while_more_is_asked_for() {
    check(
        "product p 9 1.00
         a hold p 2
         freeze a
         a set 1 5
         crash a
         thaw a
         a get
         b hold p 5
         a set 1 3
         b hold p 5
         a checkout",
        expect![[r#""#]],
    );
}

#[test]
fn changes_of_one_line_go_one_by_one() {
    check(
        "product p 9 1.00
         a hold p 2
         stop p
         a set 1 5 as one
         a set 1 1 as two
         a hold p 3 as three
         a release 1 as four
         a set 1 1 as two
         go p
         answers
         a get",
        expect![[r#""#]],
    );
}

#[test]
fn a_checkout_waits_for_lines_that_grow() {
    check(
        "product p 9 1.00
         a hold p 2
         stop p
         a set 1 5
         a checkout
         go p
         answers
         b hold p 2
         stop p
         b set 1 4
         b checkout
         wait 2
         answers
         go p
         wait 1
         b get",
        expect![[r#""#]],
    );
}

#[test]
fn an_operator_settles() {
    check(
        "product p 9 1.00
         product q 9 1.00 late
         bank authorize lost lost lost lost lost lost
         a hold p 2 + q 1
         a pay as pay
         wait 10
         answers
         a settle 1 yes
         a pay as pay
         a settle 1 no
         a settle 2 no
         b hold p 1
         bank authorize lost lost lost lost lost lost
         b pay
         b settle 1 no
         b get
         bank says b 1 authorize yes
         bank",
        expect![[r#""#]],
    );
}

#[test]
fn new_carts_of_one_customer() {
    check(
        "product p 9 1.00
         a hold p 1 for ann
         a checkout
         b hold p 1 for ann
         b checkout
         c hold p 1 for ann
         c cancel
         ann
         a checkout for bob
         d hold p 1 for ann
         d hold p 1 for bob
         d checkout for bob",
        expect![[r#""#]],
    );
}
