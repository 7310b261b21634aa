//! The command line.

use std::path::PathBuf;

use boxoffice_client::Timestamp;
use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::local_time::parse_instant;

/// Sell things that exist once: seats, places, stock and time
///
/// Each is held and sold exactly once, durable before it is answered, with live seat maps.
#[derive(Debug, Parser)]
#[command(
    name = "boxoffice",
    version = crate::version::VERSION,
    after_help = "Exit codes: 0 done, 1 refused or verdict \"no\", 2 wrong command \
    line or file, 3 no node reached, 4 the node cannot start or go on."
)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start three nodes with houses, other buyers and a page to try
    ///
    /// Prints where the page is. Ctrl-C ends everything and leaves nothing behind.
    Demo(Demo),
    /// Run a node until it is told to stop
    Serve(Serve),
    /// Make this machine a member of a cluster, and run its node
    ///
    /// Reads the line that `boxoffice admin invite` prints from the standard input, and writes the secret of the nodes into
    /// `peers.secret` in the data directory. Takes the options of `boxoffice serve`, which starts the node from then on.
    Join(Serve),
    /// Create venues, halls, sessions and products from a file
    ///
    /// A JSON file may have venues, halls, sessions, titles, products, resources and codes. The rows of a CSV file make a hall, or are
    /// products, codes, or prices of sessions that are there. Plans of pretix, SeatLayer and seats.io and points of GeoJSON make a
    /// hall as well.
    ///
    /// Example: boxoffice import seats.csv --venue globe --hall main --check
    Import(Import),
    /// Buy seats at the terminal
    ///
    /// Shows the map, holds what you choose, counts down and checks out.
    Book(Book),
    /// Draw a session's seat map and keep it live
    ///
    /// Of a product, a resource or a customer it prints each change as a line.
    Watch(Watch),
    /// Run a load scenario, with a report, an audit and a verdict
    Load(Load),
    /// Show the state of a running node, and operate it and its cluster
    Admin(Admin),
    /// Show the contents of a data directory that no node is using
    Inspect(Inspect),
    /// Back up a running cluster into a directory
    ///
    /// Takes the state of every shard, then the log up to a mark that all of them have, so that every effect has its cause. Into a
    /// directory that has a backup it takes only what is new. No node stops for it.
    Backup(Backup),
    /// Make a data directory from a backup
    ///
    /// It is that of the only node of a new cluster, to which others join. Nodes of the old cluster are refused.
    Restore(Restore),
    /// Write orders, sessions, bookings or customers as JSON or CSV
    ///
    /// From a backup, so what is written is of one instant and costs the cluster nothing. Seats have their labels, times the offset of
    /// the house, and prices are those that were paid, in minor units.
    Export(Export),
    /// Verify an unused data directory, a backup or a running cluster
    ///
    /// Reads everything: checksums, the chain of hashes over each shard's entries from one known place to the next, and the sums that
    /// are kept beside what they count. Names what is wrong with its file, shard and entry.
    ///
    /// A backup is restored into a temporary directory for it, and a running cluster is backed up into one first.
    Verify(Verify),
    /// Simulate a cluster and its buyers under faults drawn from a seed
    ///
    /// The faults are crashes, power cuts, sick disks, broken links and more. Every promise is checked.
    Sim(Sim),
    /// Print the completions of a shell for this program
    ///
    /// For bash: `boxoffice completions bash > ~/.local/share/bash-completion/completions/boxoffice`. For zsh, write `_boxoffice`
    /// into a folder of `$fpath`. For fish: `boxoffice completions fish > ~/.config/fish/completions/boxoffice.fish`.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the manual page, or write one of every command
    ///
    /// Read it with `boxoffice man | man -l -`.
    Man {
        /// Write `boxoffice.1`, `boxoffice-serve.1` and the others into this directory
        directory: Option<PathBuf>,
    },
}

/// `boxoffice sim`.
#[derive(Debug, clap::Args)]
pub struct Sim {
    /// The seed of the run. The first one of several runs
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How many seeds to run, one after the other, on all cores
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: u64,
    /// Simulated minutes under trouble.
    #[arg(long, default_value_t = 10)]
    pub minutes: u64,
    /// Nodes, 1 to 5. 0 leaves it to the seed, which is three in most runs
    #[arg(long, default_value_t = 0)]
    pub nodes: u64,
    /// Carts at a time.
    #[arg(long, default_value_t = 20)]
    pub carts: u64,
    /// Shards.
    #[arg(long, default_value_t = 4)]
    pub shards: u16,
    /// Print everything that happens on stderr, with simulated seconds
    #[arg(long)]
    pub trace: bool,
}

/// `boxoffice demo`.
#[derive(Debug, clap::Args)]
pub struct Demo {
    /// The number of other buyers.
    #[arg(long, default_value_t = 24)]
    pub buyers: u32,
    /// The seed of their choices
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// A page of yours that may show the widget, like http://localhost:3000. May be repeated
    #[arg(long = "origin", value_name = "ORIGIN")]
    pub origins: Vec<String>,
    /// Open the page in this machine's browser.
    #[arg(long)]
    pub open: bool,
    /// The port of the first node's page. The other two take the next ones. Free ports if absent
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..=65_533))]
    pub port: Option<u16>,
}

/// `boxoffice serve`.
#[derive(Debug, clap::Args)]
pub struct Serve {
    /// Configuration file on top of the built-in one (see --print-config). May be repeated. A later file overrides an earlier one
    #[arg(long, env = "BOXOFFICE_CONFIG", value_delimiter = ',')]
    pub config: Vec<PathBuf>,
    /// Address and port to listen on [built in: 127.0.0.1:7180]. Port 0 takes a free one and prints it.
    #[arg(long, env = "BOXOFFICE_LISTEN")]
    pub listen: Option<String>,
    /// Address and port for operators: probes, metrics, administration [built in: on 127.0.0.1, 200 above the clients' port].
    #[arg(long, env = "BOXOFFICE_OPS_LISTEN")]
    pub ops_listen: Option<String>,
    /// The cluster's address for browsers, like https://tickets.example: a proxy or a load balancer in front of the nodes.
    #[arg(long, env = "BOXOFFICE_PUBLIC_URL")]
    pub public_url: Option<String>,
    /// This node's address for browsers, like https://one.tickets.example.
    #[arg(long, env = "BOXOFFICE_ADVERTISE")]
    pub advertise: Option<String>,
    /// Certificate of the client port, in PEM. The port then speaks TLS.
    #[arg(long, env = "BOXOFFICE_TLS_CERTIFICATE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,
    /// Private key of that certificate, in PEM.
    #[arg(long, env = "BOXOFFICE_TLS_KEY", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// How long a stopping node still serves after /readyz has begun to fail, in milliseconds [built in: 5000].
    #[arg(long, env = "BOXOFFICE_DRAIN_MS")]
    pub drain_ms: Option<u64>,
    /// The data directory [built in: boxoffice-data]. Created if it does not exist.
    #[arg(long, env = "BOXOFFICE_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// This node's number in its cluster. A joining node without a number gets the next free one
    #[arg(long, env = "BOXOFFICE_NODE")]
    pub node: Option<u64>,
    /// Client address of a member of the cluster to join, with https:// if it speaks TLS. May be repeated. Ignored once the node is a member
    #[arg(long = "join", value_name = "ADDRESS")]
    pub join: Vec<String>,
    /// The authorities of that member's certificate, in PEM, if they are not those of this machine. Speaks TLS, also without https://
    #[arg(long, env = "BOXOFFICE_JOIN_CA", value_name = "FILE")]
    pub join_ca: Option<PathBuf>,
    /// A file with a key of the role admin, to join without an invitation
    #[arg(long, env = "BOXOFFICE_JOIN_KEY_FILE")]
    pub join_key_file: Option<PathBuf>,
    /// Address and port for other nodes. Without it the node stays alone
    #[arg(long, env = "BOXOFFICE_PEERS_LISTEN")]
    pub peers_listen: Option<String>,
    /// Host and port that other nodes are told instead.
    #[arg(long, env = "BOXOFFICE_PEERS_ADVERTISE")]
    pub peers_advertise: Option<String>,
    /// The secret of the cluster's nodes, or two while it is changed, the new one first. Every user of this machine can see it, so prefer --peers-secret-file
    #[arg(long, env = "BOXOFFICE_PEERS_SECRET", hide_env_values = true)]
    pub peers_secret: Option<String>,
    /// A file that holds the peers' secret. The node that founds the cluster makes it [built in: peers.secret in the data directory]
    #[arg(long, env = "BOXOFFICE_PEERS_SECRET_FILE", conflicts_with = "peers_secret")]
    pub peers_secret_file: Option<PathBuf>,
    /// Allow links in plain text to nodes on other machines, if the network between them is trusted
    #[arg(long, env = "BOXOFFICE_PEERS_PLAIN")]
    pub peers_plain: bool,
    /// When changes are made durable.
    #[arg(long, env = "BOXOFFICE_FSYNC")]
    pub fsync: Option<FsyncWord>,
    /// The admin token of operators. Every user of this machine can see it, so prefer --admin-token-file
    #[arg(long, env = "BOXOFFICE_ADMIN_TOKEN", hide_env_values = true)]
    pub admin_token: Option<String>,
    /// A file that holds the admin token
    #[arg(long, env = "BOXOFFICE_ADMIN_TOKEN_FILE", conflicts_with = "admin_token")]
    pub admin_token_file: Option<PathBuf>,
    /// The secret behind customers' tokens. Every user of this machine can see it, so prefer --customer-secret-file
    #[arg(long, env = "BOXOFFICE_CUSTOMER_SECRET", hide_env_values = true)]
    pub customer_secret: Option<String>,
    /// A file that holds the customer secret
    #[arg(long, env = "BOXOFFICE_CUSTOMER_SECRET_FILE", conflicts_with = "customer_secret")]
    pub customer_secret_file: Option<PathBuf>,
    /// The secret behind the ids of codes. Every user of this machine can see it, so prefer --code-secret-file
    #[arg(long, env = "BOXOFFICE_CODE_SECRET", hide_env_values = true)]
    pub code_secret: Option<String>,
    /// A file that holds the secret of codes
    #[arg(long, env = "BOXOFFICE_CODE_SECRET_FILE", conflicts_with = "code_secret")]
    pub code_secret_file: Option<PathBuf>,
    /// What to log: error, warn, info, debug, or a filter like `boxoffice_node=debug`. Libraries are never logged at trace, because
    /// they would write tokens and keys.
    #[arg(long, env = "BOXOFFICE_LOG", default_value = "warn")]
    pub log: String,
    /// Log as JSON, one object a line
    #[arg(long, env = "BOXOFFICE_LOG_JSON")]
    pub log_json: bool,
    /// Stop when the standard input ends, with the program that started the node and holds its other end
    #[arg(long)]
    pub until_input_ends: bool,
    /// Print the built-in configuration and end
    #[arg(long)]
    pub print_config: bool,
    /// Check the configuration and the files it names, and end without starting a node
    #[arg(long)]
    pub check: bool,
}

/// When a change is on disk.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum FsyncWord {
    /// Before it is answered.
    Always,
    /// At most 100 ms after it was answered.
    Interval,
    /// When the operating system chooses.
    Never,
}

/// The node of a command.
#[derive(Clone, Debug, clap::Args)]
pub struct NodeArgs {
    /// The node's address: the operators' port of a node on this machine, or its clients' port with a key. With https:// it speaks TLS
    #[arg(long, env = "BOXOFFICE_ADDRESS", default_value = "127.0.0.1:7380", global = true)]
    pub address: String,
    /// The authorities of the node's certificate, in PEM, if they are not those of this machine. Speaks TLS, also without https://
    #[arg(long, env = "BOXOFFICE_CA", value_name = "FILE", global = true)]
    pub ca: Option<PathBuf>,
    /// A key or the admin token. Every user of this machine can see it, so prefer --admin-token-file
    #[arg(long, env = "BOXOFFICE_ADMIN_TOKEN", hide_env_values = true, global = true)]
    pub admin_token: Option<String>,
    /// A file that holds the key or the admin token
    #[arg(long, env = "BOXOFFICE_ADMIN_TOKEN_FILE", conflicts_with = "admin_token", global = true)]
    pub admin_token_file: Option<PathBuf>,
}

/// `boxoffice import`.
#[derive(Debug, clap::Args)]
pub struct Import {
    /// What to import: a .json file (see config/examples/royal.json, corner.json and globe.json), a .csv file of seats
    /// (row,seat,category[,section,accessible,x,y,price]), of products (name,price,stock[,id,currency]), of codes
    /// (code,group,uses[,ended][,by_order]) or of prices (session,price_type,category,area,price[,currency]), or the plan of another system
    /// (.json, .geojson).
    pub file: PathBuf,
    /// Show what would be done, with a drawing, and change nothing
    #[arg(long)]
    pub check: bool,
    /// For seats: the venue of the hall. Created if it does not exist
    #[arg(long)]
    pub venue: Option<String>,
    /// For seats: the time zone of a venue that is created, like `Europe/Copenhagen`
    #[arg(long)]
    pub zone: Option<String>,
    /// For seats: the hall to create.
    #[arg(long)]
    pub hall: Option<String>,
    /// For plans of other systems: the middle of the stage's edge, in the units of the file
    #[arg(long, value_name = "X,Y", allow_hyphen_values = true)]
    pub stage: Option<String>,
    /// For seats: also create this session in the hall …
    #[arg(long)]
    pub session: Option<String>,
    /// … starting then (RFC 3339, the venue's time like `2026-12-24T19:30`, or from now like `+1d 19:30` [built in]) …
    #[arg(long)]
    pub starts_at: Option<String>,
    /// … at these prices: `category=amount` in minor units, repeated. `*=amount` is for all other categories.
    #[arg(long = "price", value_name = "CATEGORY=AMOUNT")]
    pub prices: Vec<String>,
    /// … in this currency.
    #[arg(long, default_value = "EUR")]
    pub currency: String,
    /// For prices: those that the file does not name stay. Without this a file that leaves out one is refused
    #[arg(long)]
    pub keep_absent: bool,
    /// The node to import into.
    #[command(flatten)]
    pub node_args: NodeArgs,
}

/// `boxoffice admin code`.
#[derive(Debug, Subcommand)]
pub enum CodeAction {
    /// Create or change a code
    Put {
        /// The code that buyers type. Its case matters.
        code: String,
        /// The group that offers of sessions name
        #[arg(long)]
        group: String,
        /// How many seats and places may be bought with it
        #[arg(long, default_value_t = 1)]
        uses: u32,
        /// Take it no more. What was held and bought with it stays so
        #[arg(long)]
        ended: bool,
        /// A cart takes one use, for as many seats and places as it likes
        #[arg(long)]
        by_order: bool,
    },
    /// Show how often a code was used
    Get {
        /// The code.
        code: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// `boxoffice book`.
#[derive(Debug, clap::Args)]
pub struct Book {
    /// The session.
    pub session: String,
    /// Seats to hold, by row and seat: `B5 B6`, `B5-B8`, `balcony/A3`. Asked for at the terminal if there are none
    pub seats: Vec<String>,
    /// The best N adjacent seats, instead of named ones
    #[arg(long, conflicts_with = "seats")]
    pub best: Option<u16>,
    /// The price type of the seats, like `under26`. The session's first one by default
    #[arg(long)]
    pub price_type: Option<String>,
    /// A code that the buyer has
    #[arg(long)]
    pub code: Option<String>,
    /// Check out at once, without asking. Needed without a terminal
    #[arg(long)]
    pub yes: bool,
    /// The node to buy from.
    #[command(flatten)]
    pub node_args: NodeArgs,
}

/// `boxoffice watch`.
#[derive(Debug, clap::Args)]
pub struct Watch {
    /// The session, or `product/ID`, `resource/ID`, `customer/ID`. Several sessions print a line for each change of their counts
    #[arg(value_name = "SESSION", required = true)]
    pub entities: Vec<String>,
    /// Print each change as a line instead of drawing the map again
    #[arg(long)]
    pub lines: bool,
    /// The node to watch at.
    #[command(flatten)]
    pub node_args: NodeArgs,
}

/// `boxoffice load`.
#[derive(Debug, clap::Args)]
pub struct Load {
    /// A scenario's name (one of config/scenarios) or file.
    pub scenario: String,
    /// The nodes to load, each once, with https:// if they speak TLS. Without any, nodes with temporary data directories are started for the run
    #[arg(long = "address")]
    pub addresses: Vec<String>,
    /// The authorities of their certificates, in PEM, if they are not those of this machine. Speaks TLS, also without https://
    #[arg(long, env = "BOXOFFICE_CA", value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Start N nodes for the run, which are one cluster, and load them all
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16), conflicts_with = "addresses")]
    pub nodes: u16,
    /// Kill one of these nodes N seconds after the start, and start it again 5 s later. The report has the cost
    #[arg(long, value_name = "SECONDS", conflicts_with = "addresses")]
    pub kill_at: Option<f64>,
    /// Add a node N seconds after the start
    #[arg(long, value_name = "SECONDS", conflicts_with = "addresses")]
    pub add_at: Option<f64>,
    /// Kill any node N times, one after the other, each time when the last one has caught up
    #[arg(long, value_name = "TIMES", conflicts_with_all = ["addresses", "kill_at", "add_at"])]
    pub kills: Option<u32>,
    /// Change a parameter of the scenario: `key=value`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Where to put the report's JSON and HTML.
    #[arg(long, default_value = "load-report")]
    pub out: PathBuf,
    /// Compare with the JSON of an earlier run of the same scenario.
    #[arg(long)]
    pub baseline: Option<PathBuf>,
    /// Fail if p50, p99 or the purchases a second are worse than in the baseline by more than this
    #[arg(long, value_name = "PERCENT", requires = "baseline", value_parser = percent)]
    pub worse_max: Option<f64>,
    /// The seed of the run's choices. A random one if absent
    #[arg(long)]
    pub seed: Option<u64>,
    /// A key with the role admin, or the admin token. Every user of this machine can see it, so prefer --admin-token-file
    ///
    /// The run creates sessions, audits, and sells without budgets.
    #[arg(long, env = "BOXOFFICE_ADMIN_TOKEN", hide_env_values = true)]
    pub admin_token: Option<String>,
    /// A file that holds the admin token
    #[arg(long, env = "BOXOFFICE_ADMIN_TOKEN_FILE", conflicts_with = "admin_token")]
    pub admin_token_file: Option<PathBuf>,
    /// The server's process on this machine, whose memory is reported. Found by the first address if absent
    #[arg(long)]
    pub server_pid: Option<u32>,
    /// No progress bar.
    #[arg(long)]
    pub quiet: bool,
    /// Encrypt the connections of clients and between nodes, with a certificate that is made for the run
    #[arg(long, conflicts_with = "addresses")]
    pub tls: bool,
    /// Durability of the node that is started for the run.
    #[arg(long, default_value = "always")]
    pub fsync: FsyncWord,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim().parse::<f64>().ok();
    number.filter(|percent| percent.is_finite() && *percent >= 0.0).ok_or_else(|| "a number of percent, like 20".into())
}

/// `boxoffice admin`.
#[derive(Debug, clap::Args)]
pub struct Admin {
    /// The command.
    #[command(subcommand)]
    pub what: AdminCommand,
    /// The node to ask.
    #[command(flatten)]
    pub node_args: NodeArgs,
}

/// The admin commands.
#[derive(Debug, Subcommand)]
pub enum AdminCommand {
    /// Show the node, its shards and rates, and the whole cluster
    ///
    /// The cluster's part has nodes, leaders, replicas that are behind, and shards that move and why.
    Status {
        /// As JSON, only the asked node itself
        #[arg(long)]
        json: bool,
    },
    /// Recount the state and check the promises
    ///
    /// Audits one entity (`session/ID`, `cart/ID`), or the whole node.
    Audit {
        /// The entity.
        entity: Option<String>,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the hash over all entries of each shard, for a notary
    ///
    /// Later, `boxoffice verify --receipt` proves of the data directory that these entries are still those that were decided.
    Receipt,
    /// Show the history of an entity, or of one seat of a session
    ///
    /// Shows the holds and sales of the seat with their times.
    History {
        /// The entity: `session/ID`, `product/ID`, `resource/ID`, `customer/ID`, `venue/ID`, `cart/ID`, `order/ID` or
        /// `directory`.
        entity: String,
        /// Only this seat of the session: its name like `B-12`, or its row and seat from 0 like `1,11`.
        #[arg(long, value_name = "R,S|LABEL")]
        seat: Option<String>,
        /// The number of newest entries
        #[arg(long, default_value_t = 100)]
        limit: u32,
        /// Only events before this version.
        #[arg(long)]
        before: Option<u64>,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show who held or owned each seat of a session at a time
    ///
    /// Also shows the holds and sales of a product or a resource. How far back that goes depends on the archives and snapshots that
    /// the nodes keep (`history.*` in the configuration).
    Map {
        /// The entity: `session/ID`, `product/ID` or `resource/ID`.
        entity: String,
        /// The time, with a zone: `2026-11-29T20:00:00+01:00`, or in UTC `2026-11-29T19:00:00Z`.
        #[arg(long, value_name = "TIME", value_parser = parse_instant)]
        at: Timestamp,
        /// Only this seat of the session: its name like `B-12`, or its row and seat from 0 like `1,11`.
        #[arg(long, value_name = "R,S|LABEL")]
        seat: Option<String>,
        /// As JSON, with all seats.
        #[arg(long, conflicts_with = "seat")]
        json: bool,
    },
    /// List members and their shards, and shards that move
    Nodes {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Move everything away from a node
    ///
    /// The node leaves the cluster when it has nothing left, and may then be stopped.
    Drain {
        /// The node's number in `admin nodes`.
        node: u64,
        /// Stop draining it. It keeps what it has, and gets more
        #[arg(long)]
        cancel: bool,
        /// Even if fewer than three members are left. Each shard then has a single voter
        #[arg(long, conflicts_with = "cancel")]
        force: bool,
    },
    /// Say that a node will not come back
    ///
    /// Its shards are copied again, and its number is never reused.
    Remove {
        /// The node's number in `admin nodes`.
        node: u64,
        /// Even if it serves and is healthy, or fewer than three members are left. Each shard then has a single voter
        #[arg(long)]
        force: bool,
    },
    /// Say that a node has lost its disk
    ///
    /// Then start one with an empty data directory, `--node NODE` and `--join`, in its place.
    Replace {
        /// The node's number in `admin nodes`.
        node: u64,
        /// Even if it serves and is healthy.
        #[arg(long)]
        force: bool,
    },
    /// Look at an upgrade, or finish it
    Upgrade {
        #[command(subcommand)]
        what: UpgradeCommand,
    },
    /// Set the outcome of a payment's step
    ///
    /// For a step whose outcome the gateway does not tell, or that failed.
    Settle {
        /// The cart: `cart/ID` or `order/ID`.
        cart: String,
        /// The attempt: the number after the first `-` of the payment's key at the gateway.
        attempt: u32,
        /// The outcome.
        outcome: SettleWord,
        /// For `authorized`: the gateway's id of the authorization.
        #[arg(long)]
        reference: Option<String>,
        /// For `refunded`: the number of the refund in `admin audit order/ID`
        #[arg(long)]
        refund: Option<u32>,
    },
    /// List payments that the gateway knows and the cluster does not
    ///
    /// After a restore from a backup, orders from after its instant are gone, and the gateway has their money. It is asked for its list
    /// of attempts to pay, which is an optional part of its contract.
    Reconcile {
        /// The configuration file of a node, with `payments.url` and its key
        #[arg(long, env = "BOXOFFICE_CONFIG")]
        config: Option<PathBuf>,
        /// Only attempts from this instant on, like 2026-12-24T20:00:07Z
        #[arg(long, value_name = "TIME", value_parser = parse_instant)]
        since: Option<Timestamp>,
    },
    /// Make a customer's token from the secret, without a node
    CustomerToken {
        /// The customer.
        customer: String,
        /// The secret of `serve`.
        #[arg(long, env = "BOXOFFICE_CUSTOMER_SECRET", hide_env_values = true)]
        customer_secret: Option<String>,
        /// A file that holds the secret
        #[arg(long, env = "BOXOFFICE_CUSTOMER_SECRET_FILE", conflicts_with = "customer_secret")]
        customer_secret_file: Option<PathBuf>,
        /// The configuration file with the secret.
        #[arg(long, env = "BOXOFFICE_CONFIG")]
        config: Option<PathBuf>,
    },
    /// Invite a machine to join the cluster
    ///
    /// Prints one line to paste into `boxoffice join` on the machine, with the addresses of members, an invitation that is good
    /// for one machine, and the secret of the nodes.
    Invite {
        /// How long the machine may use it, like 30m, 1h or 7d (the maximum)
        #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = crate::length_of_time::parse_time)]
        for_ms: u64,
    },
    /// Make an admin token, without a node
    ///
    /// Put it into the configuration of every node (listen.admin_token_file, or BOXOFFICE_ADMIN_TOKEN), and into
    /// BOXOFFICE_ADMIN_TOKEN or --admin-token-file where `boxoffice admin` is used.
    Token,
    /// Make, list and revoke keys of operators, sellers and watchers
    Key {
        /// What to do.
        #[command(subcommand)]
        what: KeyCommand,
    },
    /// Release a line of a cart
    Release {
        /// The cart: `cart/ID`.
        cart: String,
        /// The line's number in `admin audit cart/ID`.
        line: u32,
        /// The reason, which the cart's owner sees
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Refund an order, and put its seats back on sale
    Refund {
        /// The order: `order/ID` or `cart/ID`.
        order: String,
        /// The lines to refund. All that are left if none are named
        lines: Vec<u32>,
        /// The reason, for the order's record
        #[arg(long)]
        reason: String,
    },
    /// List the sessions that are on sale, with their counts
    Sessions {
        /// Only of this venue.
        #[arg(long)]
        venue: Option<String>,
        /// Also those that have ended
        #[arg(long)]
        all: bool,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// The offers and allotments of a session, and changes of them by hand
    Offers {
        /// The session.
        session: String,
        /// Close this offer
        #[arg(long, value_name = "OFFER")]
        close: Vec<String>,
        /// Open this offer again, which was closed by hand
        #[arg(long, value_name = "OFFER")]
        reopen: Vec<String>,
        /// Put the free seats of this allotment on sale
        #[arg(long, value_name = "ALLOTMENT")]
        release: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Codes that let their buyers buy under the offers of a group
    Code {
        /// What to do.
        #[command(subcommand)]
        action: CodeAction,
    },
    /// Cancel a session, and refund what it has sold
    Cancel {
        /// The session.
        session: String,
        /// The reason, which its buyers see
        #[arg(long)]
        reason: String,
    },
    /// Keep seats of a session off sale
    Block {
        /// The session.
        session: String,
        /// Seats, by row and seat, like `B5 B6` or `B5-B8`.
        #[arg(required = true)]
        seats: Vec<String>,
    },
    /// Put blocked seats back on sale
    Unblock {
        /// The session.
        session: String,
        /// Seats, by row and seat, like `B5 B6` or `B5-B8`.
        #[arg(required = true)]
        seats: Vec<String>,
    },
}

/// The commands about keys.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Make a key and print it once
    ///
    /// The cluster keeps only a hash of it.
    Create {
        /// The name of the key in the record of changes
        name: String,
        /// A role of the key. May be repeated
        #[arg(long = "role", required = true, value_name = "ROLE")]
        roles: Vec<RoleWord>,
        /// Only for this venue. May be repeated
        #[arg(long = "venue", value_name = "VENUE")]
        venues: Vec<String>,
        /// The maximum of requests a second on each node.
        #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
        requests_per_second: Option<u32>,
        /// The maximum of seats, places, units and slots in its carts at the same time, on each node.
        #[arg(long, value_name = "NUMBER")]
        held_max: Option<u32>,
        /// Write the key into this new file, which only its owner may read, instead of printing it
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
    /// List the keys
    List {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Revoke a key
    ///
    /// Every node refuses it within a second.
    Revoke {
        /// Its name.
        name: String,
    },
}

/// The commands about upgrades.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum UpgradeCommand {
    /// Show the version of the cluster, and who holds an upgrade back
    Show,
    /// Write in the newer program's form from now on
    ///
    /// Every member must run the newer program and be linked. Afterwards no node can go back to the old one.
    Finish,
}

/// A role of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RoleWord {
    /// Read the offer and follow it live.
    Watch,
    /// Have carts and pay through the gateway.
    Sell,
    /// Box office: recorded payments, blocks, releases, refunds, settlements, the offer.
    Desk,
    /// Audits, histories, status, metrics.
    Report,
    /// Members of the cluster, and keys.
    Admin,
}

/// The outcome of a payment's step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SettleWord {
    /// The amount was authorized.
    Authorized,
    /// The authorization was declined.
    Declined,
    /// The money was captured.
    Captured,
    /// The authorization was voided.
    Voided,
    /// The money was refunded.
    Refunded,
}

/// `boxoffice verify`.
#[derive(Debug, clap::Args)]
pub struct Verify {
    /// The data directory, or the directory of a backup.
    #[arg(default_value = "boxoffice-data")]
    pub dir: PathBuf,
    /// A receipt that `boxoffice admin receipt` printed before. Its chains must be met.
    #[arg(long, value_name = "FILE")]
    pub receipt: Option<PathBuf>,
    /// Verify the running cluster of the node at --address, of which a backup is taken into TMPDIR and removed again
    #[arg(long, conflicts_with = "dir")]
    pub running: bool,
    /// With --running: another member, needed where the node has no replica of some shards. May be repeated
    #[arg(long = "member", value_name = "ADDRESS", requires = "running")]
    pub members: Vec<String>,
    /// The node to ask, with --running.
    #[command(flatten)]
    pub node_args: NodeArgs,
}

/// `boxoffice backup`.
#[derive(Debug, clap::Args)]
pub struct Backup {
    /// The directory of the backup. Only its owner can read it
    pub dir: PathBuf,
    /// Another member, needed where the node has no replica of some shards, or may be lost meanwhile. May be repeated
    #[arg(long = "member", value_name = "ADDRESS")]
    pub members: Vec<String>,
    /// How long a shard without a leader is waited for
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub wait: String,
    /// Take everything, not only what is new
    #[arg(long)]
    pub full: bool,
    /// The node to back up.
    #[command(flatten)]
    pub node_args: NodeArgs,
}

/// `boxoffice restore`.
#[derive(Debug, clap::Args)]
pub struct Restore {
    /// The directory of the backup.
    pub backup: PathBuf,
    /// The data directory to make. It is empty, or does not exist.
    pub data_dir: PathBuf,
    /// The instant to restore to, in RFC 3339. The last mark that is not later counts [built in: the end of the backup]
    #[arg(long, value_name = "TIME")]
    pub at: Option<String>,
    /// The number of shards [built in: as many as the backup has]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=4_096))]
    pub shards: Option<u16>,
}

/// `boxoffice export`.
#[derive(Debug, clap::Args)]
pub struct Export {
    /// What is exported.
    pub what: ExportKind,
    /// The directory of a backup. Without one a backup of the cluster is taken into TMPDIR and removed again
    #[arg(long, value_name = "BACKUP")]
    pub backup: Option<PathBuf>,
    /// The state of this instant, in RFC 3339. The last mark that is not later counts [built in: the end of the backup]
    #[arg(long, value_name = "TIME", requires = "backup")]
    pub at: Option<String>,
    /// CSV with a line of names, instead of a JSON object in each line
    #[arg(long)]
    pub csv: bool,
    /// The file to make [built in: the terminal]
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
    /// Go on behind this id, the first column of the last line that came
    #[arg(long, value_name = "ID", requires = "backup")]
    pub after: Option<String>,
    /// Another member, needed where the node has no replica of some shards. May be repeated
    #[arg(long = "member", value_name = "ADDRESS", conflicts_with = "backup")]
    pub members: Vec<String>,
    /// The node to ask, without --backup.
    #[command(flatten)]
    pub node_args: NodeArgs,
}

/// A kind of facts to export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ExportKind {
    /// Every order with its lines, as it was bought, and the state of its money.
    Orders,
    /// Every session with its counts.
    Sessions,
    /// Every booking of every resource.
    Bookings,
    /// Every customer with the orders.
    Customers,
}

/// `boxoffice inspect`.
#[derive(Debug, clap::Args)]
pub struct Inspect {
    /// The data directory.
    #[arg(default_value = "boxoffice-data")]
    pub data_dir: PathBuf,
    /// Every turn in the log, or only those of this entity (`session/ID`, `cart/ID`, `venue/ID`).
    #[arg(long, num_args = 0..=1, default_missing_value = "")]
    pub turns: Option<String>,
}
