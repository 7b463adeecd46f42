//! How the process that becomes a guest gets its network. Runs in that process, not in the daemon.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use super::link::LinkPlan;
use super::tools::{IP, NFT, feed_here};

/// Moves this thread into a new network namespace and links that to the world, with the packet filter of the plan in
/// force before there is a link.
///
/// To be called by the superuser in a process with one thread, before it becomes somebody else: the namespace
/// belongs to the superuser, so the guest can change nothing of it. After an error the process must end; it may be
/// in a namespace without a link.
pub(crate) fn enter(plan: &LinkPlan) -> io::Result<()> {
    let world = File::open(&plan.world)?;
    #[expect(
        deprecated,
        reason = "a network namespace does not touch descriptors, which is what the deprecation is about"
    )]
    rustix::thread::unshare(UnshareFlags::NEWNET)?;
    let guest = File::open("/proc/thread-self/ns/net")?;
    feed_here(NFT, &plan.ruleset).map_err(io::Error::other)?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), guest.as_raw_fd());
    move_into(&world)?;
    // Whatever comes of it: back out of the world, where there is no filter.
    let linked = feed_here(IP, &plan.in_world(&path));
    move_into(&guest)?;
    linked.and_then(|()| feed_here(IP, &plan.in_guest())).map_err(io::Error::other)
}

fn move_into(namespace: &File) -> io::Result<()> {
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}
