#[path = "../tests/brute_force.rs"]
#[allow(dead_code)]
mod b;
fn main() {
    let seed: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    b::debug(seed);
}
