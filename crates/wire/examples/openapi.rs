//! Prints the OpenAPI document, for generators of clients.

fn main() {
    println!("{}", boxoffice_wire::schema::document());
}
