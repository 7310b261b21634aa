//! Late and duplicate messages about units, places and slots that another cart has by now change nothing (P4).

use expect_test::expect;

use crate::script::check;

#[test]
pub(crate) fn late_messages_about_units() {
    check(
        "product p 2 1.00 quota few 2
         a hold p 2 for ann
         a release 1
         b hold p 2 for ann
         again release p
         again release ann
         again hold p
         again hold ann
         a cancel
         last release p
         b checkout
         again release p
         last release ann
         last sell p
         last sell ann
         c hold p 1 for ann",
        expect![[r#"
            product p 2 1.00 quota few 2 -> 2 free, 0 held, 0 sold
            a hold p 2 for ann -> line 1 p 2, until 1800.000
                p  0 free, 2 held, 0 sold
            a release 1 -> active, until 1800.000
                ann  0 orders
                p  2 free, 0 held, 0 sold
            b hold p 2 for ann -> line 1 p 2, until 1800.000
                ann  few 2 held 0 sold, 0 orders
                p  0 free, 2 held, 0 sold
            again release p
            again release ann
            again hold p
            again hold ann
            a cancel -> canceled
            last release p
            b checkout -> order of line 1 p 2, total 2.00
                ann  few 0 held 2 sold, 1 orders
                p  0 free, 0 held, 2 sold
            again release p
            last release ann
            last sell p
            last sell ann
            c hold p 1 for ann -> no: out_of_stock, 1 of the products are out of stock: p wanted 1 free 0
        "#]],
    );
}

#[test]
fn late_messages_about_places() {
    check(
        "hall aa
         session s with stand 3 5.00
         a hold s stand 3
         a set 1 1
         b hold s stand 2
         again release s
         again hold s
         a cancel
         c hold s stand 1
         again release s
         last release s
         b checkout
         last sell s
         b refund
         d hold s stand 2
         last sell s
         last refund s",
        expect![[r#"
            hall aa -> done
            session s with stand 3 5.00 -> 2 free, 0 held, 0 sold, 0 blocked
            a hold s stand 3 -> line 1 s stand 3, until 1800.000
                ..
                stand 0 free, 3 held, 0 sold
            a set 1 1 -> active, line 1 s stand 1, total 5.00, until 1800.000
                ..
                stand 2 free, 1 held, 0 sold
            b hold s stand 2 -> line 1 s stand 2, until 1800.000
                ..
                stand 0 free, 3 held, 0 sold
            again release s
            again hold s
            a cancel -> canceled, line 1 s stand 1, total 5.00
                ..
                stand 1 free, 2 held, 0 sold
            c hold s stand 1 -> line 1 s stand 1, until 1800.000
                ..
                stand 0 free, 3 held, 0 sold
            again release s
            last release s
            b checkout -> order of line 1 s stand 2, total 10.00
                ..
                stand 0 free, 1 held, 2 sold
            last sell s
            b refund -> refund 1 of lines [1] 10.00 Recorded
                ..
                stand 2 free, 1 held, 0 sold
            d hold s stand 2 -> line 1 s stand 2, until 1800.000
                ..
                stand 0 free, 3 held, 0 sold
            last sell s
            last refund s
        "#]],
    );
}

#[test]
pub(crate) fn late_messages_about_slots() {
    check(
        "resource r 12.00
         a hold r 100 200
         a release 1
         b hold r 150 250
         again release r
         again hold r
         b checkout
         again release r
         last sell r
         b refund
         c hold r 100 300
         last sell r
         last refund r
         again release r",
        expect![[r#"
            resource r 12.00 -> 0 bookings
            a hold r 100 200 -> line 1 r 100-200, until 1800.000
                100-200 held
            a release 1 -> active, until 1800.000
                free
            b hold r 150 250 -> line 1 r 150-250, until 1800.000
                150-250 held
            again release r
            again hold r
            b checkout -> order of line 1 r 150-250, total 12.00
                150-250 sold
            again release r
            last sell r
            b refund -> refund 1 of lines [1] 12.00 Recorded
                free
            c hold r 100 300 -> line 1 r 100-300, until 1800.000
                100-300 held
            last sell r
            last refund r
            again release r
        "#]],
    );
}

/// A command to a cart changes only its own lines.
#[test]
fn a_cart_changes_only_its_own_lines() {
    check(
        "product p 9 1.00
         a hold p 3
         b hold p 1
         b set 1 2
         b release 1
         b set 1 3
         b release 1
         b cancel
         c release 1
         c set 1 1
         c cancel
         c checkout
         a get",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a hold p 3 -> line 1 p 3, until 1800.000
                6 free, 3 held, 0 sold
            b hold p 1 -> line 1 p 1, until 1800.000
                5 free, 4 held, 0 sold
            b set 1 2 -> active, line 1 p 2, total 2.00, until 1800.000
                4 free, 5 held, 0 sold
            b release 1 -> active, until 1800.000
                6 free, 3 held, 0 sold
            b set 1 3 -> no: no_such_line, the cart has no line 1
            b release 1 -> no: no_such_line, the cart has no line 1
            b cancel -> canceled
            c release 1 -> no: not_found, cart 00000000000000000000000000000063 is not known
            c set 1 1 -> no: not_found, cart 00000000000000000000000000000063 is not known
            c cancel -> no: not_found, cart 00000000000000000000000000000063 is not known
            c checkout -> no: not_found, cart 00000000000000000000000000000063 is not known
            a get -> active, line 1 p 3, total 3.00, until 1800.000
        "#]],
    );
}
