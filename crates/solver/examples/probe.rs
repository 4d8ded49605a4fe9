use std::io::Read;
fn main() {
    let path = std::env::args().nth(1).unwrap();
    let t = std::time::Instant::now();
    let out = std::process::Command::new("zcat").arg(&path).output().unwrap().stdout;
    let mut v = Vec::new(); (&out[..]).read_to_end(&mut v).unwrap();
    eprintln!("unzip {:?}", t.elapsed());
    let t = std::time::Instant::now();
    let p = meshwright_solver::contest::read(&v).unwrap();
    eprintln!("read {:?} {:.0} MB/s", t.elapsed(), v.len() as f64 / 1e6 / t.elapsed().as_secs_f64());
    meshwright_solver::probe(&p);
}
