//! `boxoffice admin customer-token`: a customer's token, made from the node's secret.

use std::path::Path;

use boxoffice_env::secret::Secret;
use boxoffice_wire::customer::{SECRET_BYTES_MIN, token};

use super::print;
use crate::{
    config::Config,
    failure::{Failure, Outcome},
    ids,
};

/// Prints the token of a customer.
///
/// # Errors
/// [`Failure::Usage`] if the id is not valid, or there is no secret.
pub fn show_token(customer: &str, secret: Option<String>, file: Option<&Path>) -> Outcome {
    let id = ids::id_of("customer", customer)?;
    let Secret(secret) = secret_of(secret, file)?;
    print(&[token(secret.as_bytes(), &id)]);
    Ok(())
}

/// The secret, from the command line or else from the configuration, as in `serve`.
fn secret_of(secret: Option<String>, file: Option<&Path>) -> Result<Secret, Failure> {
    let secret = match secret {
        Some(said) => Some(Secret(said)),
        None => Config::load(file).map_err(|error| Failure::Usage(error.to_string()))?.edge.customer_secret,
    };
    match secret {
        Some(Secret(secret)) if secret.len() < SECRET_BYTES_MIN => Err(Failure::Usage(format!(
            "the customer secret is too short: it has at least {SECRET_BYTES_MIN} characters"
        ))),
        Some(secret) => Ok(secret),
        None => Err(Failure::Usage(
            "there is no customer secret: name it with BOXOFFICE_CUSTOMER_SECRET, or the file that has \
             listen.customer_secret with --config"
                .into(),
        )),
    }
}
