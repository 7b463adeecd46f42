//! The operator's binary, for now only `crds`.
use std::io::Write;
fn main() {
    let dir = std::env::args().nth(1).unwrap_or_default();
    for (name, crd) in sprite_operator::api::crds().unwrap_or_default() {
        let y = sprite_operator::api::to_yaml(&crd).unwrap_or_default();
        let _ = std::fs::write(format!("{dir}/{name}"), &y);
        let _ = writeln!(std::io::stdout(), "{name} {}", y.len());
    }
}
