//! The secret that the nodes of a cluster prove to each other: where it is, and who makes it.
//!
//! The founder of a cluster makes the file if there is none. Other nodes get the same file: on one machine by its path, on
//! another one by an invitation, which `boxoffice join` writes into a file of its own.

use std::{
    fs::{self, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use boxoffice_env::secret::Secret;
use boxoffice_links::CLUSTER_SECRET_BYTES_MIN;
use tokio::time::{Instant, sleep};

use crate::{
    failure::{Failure, Outcome},
    secret::{self, is_fit_for_a_header},
};

/// The file in the data directory, if the configuration names none.
pub const FILE: &str = "peers.secret";

/// The most secrets that count at the same time: the current one, and another one while it is changed.
const SECRETS_MAX: usize = 2;

/// How long a node waits for the file that the founder makes.
const WAIT: Duration = Duration::from_secs(30);

/// The pause between two looks for the file.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Where the secret of the cluster's nodes is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerSecret {
    /// In the configuration, the environment or a flag: the current one, then perhaps another one that counts as well.
    Set(Vec<Secret>),
    /// In a file.
    File {
        path: PathBuf,
        /// Whether the configuration names the file, and not only the built-in default.
        is_named: bool,
    },
}

/// What a node is to its cluster when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It founds the cluster, or is its only node, so that no other node has a secret yet.
    Founder,
    /// It is a member of a cluster with other nodes.
    Member,
    /// It wants to join others.
    Joiner,
}

/// The secrets in a text, separated by blanks or line ends.
///
/// # Errors
/// There is none, there are more than two, or one could be guessed.
pub fn parse(text: &str) -> Result<Vec<Secret>, String> {
    let secrets: Vec<Secret> = text.split_ascii_whitespace().map(|secret| Secret(secret.to_owned())).collect();
    let is_good = |secret: &Secret| secret.0.len() >= CLUSTER_SECRET_BYTES_MIN && is_fit_for_a_header(&secret.0);
    if !(1..=SECRETS_MAX).contains(&secrets.len()) || !secrets.iter().all(is_good) {
        return Err(format!(
            "one secret of at least {CLUSTER_SECRET_BYTES_MIN} visible ASCII characters, or two while it is changed, \
             separated by a blank or a line end"
        ));
    }
    Ok(secrets)
}

impl PeerSecret {
    /// The secrets of a node, the current one first. Makes the file if the node founds a cluster, and waits for a file that
    /// the configuration names if it does not.
    ///
    /// # Errors
    /// There is no secret, in one sentence with the remedy.
    pub async fn of_node(&self, standing: Standing) -> Result<Vec<Secret>, Failure> {
        let (path, is_named) = match self {
            PeerSecret::Set(secrets) => return Ok(secrets.clone()),
            PeerSecret::File { path, is_named } => (path, *is_named),
        };
        let waits_until = Instant::now() + if is_named { WAIT } else { Duration::ZERO };
        loop {
            match (read(path)?, standing) {
                (Some(secrets), _) => return Ok(secrets),
                (None, Standing::Founder) => {
                    write(path, &Secret(secret::hex()?))?;
                }
                (None, Standing::Joiner) if Instant::now() < waits_until => sleep(LOOK_EVERY).await,
                (None, Standing::Joiner) => return Err(missing(path, is_named)),
                (None, Standing::Member) => {
                    return Err(Failure::Usage(format!(
                        "{}: the secret of the cluster's nodes is missing; copy this file from another node, or name the \
                         file that has it (peers.secret_file, --peers-secret-file)",
                        path.display()
                    )));
                }
            }
        }
    }
}

fn missing(path: &Path, is_named: bool) -> Failure {
    let waited = if is_named { format!(" and did not appear within {} s", WAIT.as_secs()) } else { String::new() };
    Failure::Usage(format!(
        "{}: the secret of the cluster's nodes is missing{waited}; on one machine set peers.secret_file \
         (--peers-secret-file) of all nodes to one file, which the first node makes, and on another machine paste the \
         line that `boxoffice admin invite` prints into `boxoffice join`",
        path.display()
    ))
}

/// The secrets in a file. `None` if it is not there.
pub fn read(path: &Path) -> Result<Option<Vec<Secret>>, Failure> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::Usage(format!("{}: cannot be read: {error}", path.display()))),
    };
    parse(&text).map(Some).map_err(|why| Failure::Usage(format!("{}: {why}", path.display())))
}

/// Writes a secret into a new file that only its owner may read. A file that is there already stays as it is.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, secret: &Secret) -> Outcome {
    // Containers that share a folder may have the same process id.
    try_write(path, secret, &secret::hex()?)
        .map_err(|error| Failure::Usage(format!("{}: the secret cannot be written: {error}", path.display())))
}

fn try_write(path: &Path, secret: &Secret, random: &str) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.exists() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    // The file gets its name when it is whole. If several nodes write at the same time, the first one keeps the name.
    let mut aside = path.as_os_str().to_owned();
    aside.push(format!(".{}.new", &random[..16]));
    let aside = PathBuf::from(aside);
    let written =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&aside).and_then(|mut file| {
            file.write_all(format!("{}\n", secret.0).as_bytes())?;
            file.sync_all()?;
            match fs::hard_link(&aside, path) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
                Ok(()) | Err(_) => fs::File::open(folder)?.sync_all(),
            }
        });
    // It has the other name now, or was not needed.
    let _ = fs::remove_file(&aside);
    written
}

/// Writes the secret that an invitation has.
///
/// # Errors
/// The file has another secret, or cannot be written.
pub fn write_invited(path: &Path, secret: &Secret) -> Outcome {
    write(path, secret)?;
    match read(path)? {
        Some(secrets) if secrets.contains(secret) => Ok(()),
        Some(_) | None => Err(Failure::Usage(format!(
            "{}: this file has the secret of another cluster's nodes; name another file (peers.secret_file) or another data \
             directory, or remove it if no node needs it",
            path.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::PermissionsExt, thread};

    use super::*;

    fn of_node(path: &Path, is_named: bool, standing: Standing) -> Result<Vec<Secret>, String> {
        let secret = PeerSecret::File { path: path.to_owned(), is_named };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(secret.of_node(standing)).map_err(|why| why.to_string())
    }

    #[test]
    fn the_founder_makes_a_file_that_only_its_owner_reads() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("data").join(FILE);
        let made = of_node(&path, false, Standing::Founder).expect("it is made");
        assert_eq!(made[0].0.len(), 2 * secret::SECRET_BYTES);
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().expect("a folder"))), (0o600, 0o700));
        assert_eq!(fs::read_dir(dir.path().join("data")).expect("a folder").count(), 1, "nothing is left aside");
        for standing in [Standing::Founder, Standing::Member, Standing::Joiner] {
            assert_eq!(of_node(&path, false, standing), Ok(made.clone()), "{standing:?}");
        }
    }

    #[test]
    fn two_that_start_at_once_read_one_secret() {
        for _ in 0..20 {
            let dir = tempfile::tempdir().expect("a temporary directory");
            let path = dir.path().join(FILE);
            let made: Vec<_> = thread::scope(|scope| {
                let starts: Vec<_> = (0..4).map(|_| scope.spawn(|| of_node(&path, true, Standing::Founder))).collect();
                starts.into_iter().map(|start| start.join().expect("no panic").expect("it is made")).collect()
            });
            assert!(made.iter().all(|secrets| *secrets == made[0]), "{}", dir.path().display());
        }
    }

    #[test]
    fn others_are_told_which_file_they_miss() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join(FILE);
        for (is_named, standing, expected) in [
            (true, Standing::Joiner, "did not appear within 30 s"),
            (false, Standing::Joiner, "boxoffice join"),
            (true, Standing::Member, "copy this file from another node"),
            (false, Standing::Member, "copy this file from another node"),
        ] {
            let why = of_node(&path, is_named, standing).expect_err("there is no file");
            assert!(why.starts_with(&path.display().to_string()) && why.contains(expected), "{why}");
        }
        assert!(!path.exists(), "only a founder makes it");
    }

    #[test]
    fn one_or_two_secrets_are_read() {
        let count = |text: &str| parse(text).map(|secrets| secrets.len());
        assert_eq!(count("sixteen-letters!\n"), Ok(1));
        assert_eq!(count("sixteen-letters!  another-sixteen!"), Ok(2));
        for wrong in [
            "",
            " \n",
            "short",
            "sixteen-letters! short",
            "sixteen-letterä!",
            "1234567890123456 1234567890123456 1234567890123456",
        ] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_invitation_does_not_replace_another_secret() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join(FILE);
        let secret = |text: &str| Secret(text.to_owned());
        write_invited(&path, &secret("sixteen-letters!")).expect("it is new");
        write_invited(&path, &secret("sixteen-letters!")).expect("it is the same");
        let why = write_invited(&path, &secret("another-sixteen!")).expect_err("it is another");
        assert!(why.to_string().contains("another cluster's nodes"), "{why}");
    }
}
