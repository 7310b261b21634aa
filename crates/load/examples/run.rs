//! Runs a scenario and prints its table: `cargo run --release -p boxoffice-load --example run -- ADDRESS SCENARIO
//! [KEY=VALUE …]`.

use std::process::ExitCode;

use boxoffice_load::{RunConfig, run};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(address), Some(scenario)) = (arguments.next(), arguments.next()) else {
        eprintln!("give an address and a scenario");
        return ExitCode::from(2);
    };
    let overrides = arguments.collect();
    let out_dir = Some(std::env::temp_dir().join("boxoffice-load-report"));
    let config = RunConfig { addresses: vec![address], scenario, overrides, out_dir, ..RunConfig::default() };
    match run(config.clone()) {
        Ok(report) => {
            print!("{}", report.to_table(None));
            println!("  report in {}", config.out_dir.unwrap_or_default().display());
            if report.verdict.passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
