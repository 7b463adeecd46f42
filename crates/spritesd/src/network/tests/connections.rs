//! What becomes of open connections when the rules change.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::support::{Guest, Lab, echoes, policy};
use crate::network::enforcement::Enforcement;
use crate::network::tools::NFT;

const AT_ONCE: Duration = Duration::from_secs(1);

/// Whether a program that waits for data on this connection is told that it has ended.
async fn is_told_of_its_end(stream: &mut TcpStream) -> bool {
    let mut buffer = [0; 64];
    timeout(AT_ONCE, stream.read(&mut buffer)).await.is_ok_and(|read| read.is_err())
}

async fn two_connections(lab: &Lab, rules: &str) -> (Guest, TcpStream, TcpStream) {
    lab.host(Some("a.example"), "203.0.113.1").await;
    lab.host(Some("b.example"), "203.0.113.2").await;
    let guest = lab.guest(rules).await;
    guest.resolve("a.example").await;
    guest.resolve("b.example").await;
    let (a, b) = (guest.connect("203.0.113.1").await.unwrap(), guest.connect("203.0.113.2").await.unwrap());
    (guest, a, b)
}

#[tokio::test]
async fn tightening_cuts_what_is_not_allowed_any_more_and_nothing_else() {
    let lab = Lab::new().await;
    let (guest, mut a, mut b) = two_connections(&lab, "+a.example +b.example").await;
    guest.set("+a.example").await;
    assert!(is_told_of_its_end(&mut b).await);
    assert!(echoes(&mut a).await);
    assert!(guest.reaches("203.0.113.1").await && !guest.reaches("203.0.113.2").await);
}

#[tokio::test]
async fn the_lockdown_cuts_what_was_begun_in_the_window() {
    let lab = Lab::new().await;
    lab.host(None, "192.0.2.1").await;
    let (guest, mut a, mut b) = two_connections(&lab, "").await;
    let mut literal = guest.connect("192.0.2.1").await.unwrap();
    guest.set("+a.example").await;
    assert!(is_told_of_its_end(&mut literal).await && is_told_of_its_end(&mut b).await);
    assert!(echoes(&mut a).await, "its name was looked up and is allowed");
    guest.set("-*").await;
    assert!(is_told_of_its_end(&mut a).await);
}

#[tokio::test]
async fn widening_cuts_nothing() {
    let lab = Lab::new().await;
    let (guest, mut a, mut b) = two_connections(&lab, "+a.example +b.example").await;
    for rules in ["+*.example", "+*", "", ""] {
        guest.set(rules).await;
        assert!(echoes(&mut a).await && echoes(&mut b).await, "{rules:?}");
    }
    // Silent over several changes.
    for rules in ["+*", "+a.example +b.example", "", "+a.example"] {
        guest.set(rules).await;
    }
    assert!(echoes(&mut a).await);
    assert!(is_told_of_its_end(&mut b).await);
}

#[tokio::test]
async fn the_packet_filter_alone_cuts_both_directions() {
    let lab = Lab::new().await;
    lab.chatty_host("chatty.example", "203.0.113.3").await;
    lab.host(Some("a.example"), "203.0.113.1").await;
    let guest = lab.guest("").await;
    let mut silent = guest.connect("203.0.113.1").await.unwrap();
    let address = "203.0.113.3:80".parse().unwrap();
    let chatty = guest.inside.run(move || std::net::TcpStream::connect_timeout(&address, AT_ONCE)).await.unwrap();
    chatty.set_nonblocking(true).unwrap();
    let mut chatty = TcpStream::from_std(chatty).unwrap();
    let mut buffer = [0; 4096];
    timeout(AT_ONCE, chatty.read(&mut buffer)).await.unwrap().unwrap();

    let rules = Enforcement::new(&policy(""), AT_ONCE).under(&policy("-*")).ruleset(Instant::now());
    guest.inside.feed(NFT, rules.render()).await.unwrap();
    // What had come before may still be read.
    drop(timeout(Duration::from_millis(100), chatty.read(&mut buffer)).await);
    assert!(timeout(AT_ONCE / 2, chatty.read(&mut buffer)).await.is_err(), "still hears the other side");
    for cut in [&mut chatty, &mut silent] {
        // The first packet out is answered by a reset.
        drop(cut.write_all(b"x").await);
        assert!(is_told_of_its_end(cut).await);
    }
}

#[tokio::test]
async fn a_cut_connection_does_not_come_back() {
    let lab = Lab::new().await;
    let (guest, _a, mut b) = two_connections(&lab, "+a.example +b.example").await;
    // By the filter alone, so that the program's end of it stays.
    let first = Enforcement::new(&policy("+b.example"), AT_ONCE);
    let denied = first.under(&policy("-*"));
    let again = denied.under(&policy(""));
    for state in [&denied, &again] {
        guest.inside.feed(NFT, state.ruleset(Instant::now()).render()).await.unwrap();
    }
    assert!(guest.reaches("203.0.113.2").await);
    drop(b.write_all(b"ping").await);
    assert!(is_told_of_its_end(&mut b).await);
}

#[tokio::test]
async fn suspending_cuts_all_connections_and_closes_nothing() {
    for rules in ["", "+a.example +b.example"] {
        let lab = Lab::new().await;
        let (guest, mut a, mut b) = two_connections(&lab, rules).await;
        guest.network.cut_connections().await.unwrap();
        assert!(is_told_of_its_end(&mut a).await && is_told_of_its_end(&mut b).await, "{rules:?}");
        assert!(guest.reaches("203.0.113.1").await);
    }
}

#[tokio::test]
async fn the_guests_own_connections_and_its_resolver_survive() {
    let lab = Lab::new().await;
    let guest = lab.guest("").await;
    let local = super::support::listen(&guest.inside, "127.0.0.1:8080".parse().unwrap()).await;
    let connect = || std::net::TcpStream::connect("127.0.0.1:8080");
    let client = guest.inside.run(connect).await.unwrap();
    let (mut server, _) = local.accept().await.unwrap();
    guest.set("-*").await;
    guest.network.cut_connections().await.unwrap();
    client.set_nonblocking(true).unwrap();
    let mut client = TcpStream::from_std(client).unwrap();
    server.write_all(b"ping").await.unwrap();
    let mut buffer = [0; 4];
    timeout(AT_ONCE, client.read_exact(&mut buffer)).await.unwrap().unwrap();
    assert_eq!(&buffer, b"ping");
}

#[tokio::test]
async fn a_change_that_nobody_waits_for_is_made_to_its_end() {
    let lab = Lab::new().await;
    lab.host(None, "192.0.2.1").await;
    let guest = lab.guest("").await;
    let denied = policy("-*");
    drop(timeout(Duration::from_micros(1), guest.network.set_policy(&denied)).await);
    // The next change waits for the one before it; what this one leaves is decided by both.
    guest.network.cut_connections().await.unwrap();
    assert!(!guest.reaches("192.0.2.1").await);
}
