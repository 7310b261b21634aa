//! Invalid input and configurations are refused by name and change nothing, and the node stays up.

mod frames;
mod goods;
mod requests;
mod segments;
mod starts;

use crate::common::{Answer, Encoding, Home, Port, Rng, Server, Theatre, checkout};
use serde_json::{Value, json};

const TOKEN: &str = "000102030405060708090a0b0c0d0e0f";

/// A node with a theatre, its initial counts, and an rng for the purchases that show that it still sells.
struct Stage {
    server: Server,
    port: Port,
    theatre: Theatre,
    rng: Rng,
    home: Home,
}

impl Stage {
    async fn new(test: &str, encoding: Encoding) -> Stage {
        let home = Home::new();
        let server = home.start();
        let port = server.port(encoding).await;
        let theatre = Theatre::open(&port, 2, (10, 20), None).await;
        Stage { server, port, theatre, rng: Rng::of_test(test), home }
    }

    fn session(&self) -> &str {
        self.theatre.session()
    }

    /// A purchase on a new connection.
    async fn sells(&mut self) {
        let port = self.server.port(self.port.encoding()).await;
        let token = self.rng.token();
        let body = json!({"token": token, "session": self.session(), "count": 1});
        port.ask("cart.hold_best", "1", body).await.ok();
        port.ask("cart.checkout", "2", checkout(&token)).await.ok();
    }

    /// The node's counts, which must not change.
    async fn counts(&self) -> Value {
        let audit = self.port.read("admin.audit", json!({})).await.ok();
        assert_eq!(audit["violations"], json!([]), "{audit}");
        json!([audit["seats"], audit["holds"], audit["orders"], audit["sessions"], audit["venues"]])
    }

    /// Checks that each of these requests is refused with this code and name, and that nothing changes.
    async fn refuses(&mut self, wrong: Vec<(&str, Value, u64, &str)>) {
        let before = self.counts().await;
        for (number, (op, body, code, name)) in wrong.into_iter().enumerate() {
            let text = body.to_string();
            let shown = &text[..text.len().min(200)];
            match self.port.ask(op, &format!("wrong-{number}"), body).await {
                Answer::No(no) => assert_eq!((no.code, no.name.as_str()), (code, name), "{op} {shown}: {}", no.body),
                other => panic!("{op} {shown} must be refused with {code} {name}: {other:?}"),
            }
        }
        assert_eq!(self.counts().await, before, "a refusal changed something");
        self.sells().await;
    }
}
