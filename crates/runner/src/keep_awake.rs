//! A task of the platform keeps the Sprite awake for a long script. Beside everything else, in a thread: nothing waits for it.

use std::{
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    sync::mpsc,
    time::Duration,
};

/// Where the platform listens in the guest.
const SOCKET: &str = "/.sprite/api.sock";
const PATIENCE: Duration = Duration::from_secs(2);

/// Asks for it, until so long from now. Without such a socket nothing is lost but the pause.
pub fn begin(uid: &str, lasts: Duration) {
    let body = format!("{{\"expire\":{}}}", lasts.as_secs());
    let length = body.len();
    let head = format!("PUT /v1/tasks/so-{uid} HTTP/1.1\r\nHost: sprite\r\nContent-Type: application/json\r\n");
    let request = format!("{head}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    std::thread::spawn(move || call(&request));
}

/// Takes it back, and waits a moment for that.
pub fn end(uid: &str) {
    let request = format!("DELETE /v1/tasks/so-{uid} HTTP/1.1\r\nHost: sprite\r\nConnection: close\r\n\r\n");
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        call(&request);
        let _ = done.send(());
    });
    let _ = ended.recv_timeout(PATIENCE);
}

fn call(request: &str) {
    let Ok(mut stream) = UnixStream::connect(SOCKET) else { return };
    let _ = stream.set_read_timeout(Some(PATIENCE));
    let _ = stream.set_write_timeout(Some(PATIENCE));
    if stream.write_all(request.as_bytes()).is_ok() {
        let _ = stream.read(&mut [0; 256]);
    }
}
