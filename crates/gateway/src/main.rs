//! `boxoffice-gateway`: runs the test gateway.

use std::{net::SocketAddr, process::ExitCode};

use boxoffice_gateway::{Server, Settings, Webhook, ledger::FaultRates};
use clap::Parser;
use hyper::Uri;
use tokio::signal::unix::{SignalKind, signal};

/// Run a payment gateway for tests
///
/// The gateway moves no money and misbehaves on demand. The source of a payment says what happens to it: `ok`,
/// `decline`, `lost-2` or `late-500+capture-fails`. docs/reference/gateway.md lists the words. `GET /ledger` shows all charges.
#[derive(Debug, Parser)]
#[command(name = "boxoffice-gateway", version)]
struct Args {
    /// Listen on this address; port 0 takes a free port
    #[arg(long, default_value = "127.0.0.1:7190")]
    listen: SocketAddr,
    /// Require this key as `Authorization: Bearer`
    #[arg(long, env = "BOXOFFICE_GATEWAY_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
    /// Post webhooks to this URL
    ///
    /// A node takes them at `http://127.0.0.1:7180/v1/payments/webhook`.
    #[arg(long, requires = "secret")]
    webhook: Option<Uri>,
    /// Sign webhooks with this secret
    #[arg(long, env = "BOXOFFICE_GATEWAY_SECRET", hide_env_values = true)]
    secret: Option<String>,
    /// Decline this share of `ok` authorizations, from 0 to 1
    ///
    /// Only authorizations with the source `ok` count.
    #[arg(long, default_value_t = 0.0, value_parser = share)]
    decline_share: f64,
    /// Do not answer the first request of this share of `ok` steps, 0 to 1
    ///
    /// Only steps of charges with the source `ok` count. The step is done.
    #[arg(long, default_value_t = 0.0, value_parser = share)]
    timeout_share: f64,
    /// Delay every answer by this many milliseconds
    #[arg(long, default_value_t = 0)]
    delay_ms: u64,
    /// Select the shares by this seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        Ok(_) | Err(_) => Err("a share is a number from 0 to 1".to_owned()),
    }
}

impl Args {
    fn settings(self) -> Result<Settings, String> {
        let webhook = match (self.webhook, self.secret) {
            (None, _) => None,
            (Some(url), _) if url.scheme_str() != Some("http") => {
                return Err(format!("--webhook {url} is not a URL that begins with http://"));
            }
            (Some(_), None) => return Err("--webhook needs --secret".to_owned()),
            (Some(_), Some(secret)) if secret.is_empty() => {
                return Err("--secret is empty; give the secret that the node knows".to_owned());
            }
            (Some(url), Some(secret)) => Some(Webhook { url, secret }),
        };
        let rates = FaultRates { decline: self.decline_share, timeout: self.timeout_share, seed: self.seed };
        Ok(Settings { listen: self.listen, api_key: self.api_key, webhook, rates, delay_ms: self.delay_ms })
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("boxoffice-gateway: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run(args: Args) -> Result<(), String> {
    let settings = args.settings()?;
    let listen = settings.listen;
    let signals = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    let (Ok(mut terminate), Ok(mut interrupt)) = signals else { return Err("cannot handle signals".to_owned()) };
    let server = Server::bind(settings).await.map_err(|error| format!("cannot listen on {listen}: {error}"))?;
    println!("boxoffice-gateway listens on http://{}", server.address());
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    server.run(stop).await;
    Ok(())
}
