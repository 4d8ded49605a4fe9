fn main() {
    let path = std::env::args().nth(1).unwrap();
    let out = std::process::Command::new("zcat").arg(&path).output().unwrap().stdout;
    let p = meshwright_solver::contest::read(&out).unwrap();
    meshwright_solver::probe_ascent(&p);
}
