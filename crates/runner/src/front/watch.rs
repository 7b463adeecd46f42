//! Watches a script from its start to its record: relays output, passes signals on, and takes over from a supervisor that was
//! killed or does not answer.

use std::{
    os::fd::{AsFd as _, OwnedFd},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Pid, Signal, kill_process},
};

use runner_protocol::{Arguments, Capture, Cause, Record, start_marker};

use super::Refused;
use crate::{
    channel::{self, Message},
    clock::{self, Timer},
    processes,
    relay::Relay,
    root::Root,
    signals::{Signals, Wish},
    supervisor::{self, GRACE, KILLED},
};

/// How much later than the supervisor the front ends a script.
const BACKSTOP: Duration = Duration::from_secs(5);
/// How long the front's own stop waits for the supervisor, beyond the grace.
const ANSWERS: Duration = Duration::from_secs(3);
/// How long what is left behind may hold the pipes open.
const PIPES: Duration = Duration::from_secs(1);
/// How long a caller that does not read is waited for at the end.
const LAST_READ: Duration = Duration::from_secs(10);

/// All that is watched.
pub struct Watch<'a> {
    arguments: &'a Arguments,
    root: &'a Root,
    signals: Signals,
    supervisor: Pid,
    channel: Option<OwnedFd>,
    timer: Timer,
    began: Duration,
    relays: [Relay<'static>; 2],
    capture: Capture,
    /// Why it was told to stop.
    stopped: Option<Cause>,
    /// When the supervisor is no longer waited for.
    take_over_at: Duration,
}

impl<'a> Watch<'a> {
    /// Of a script that was started then.
    pub fn new(
        arguments: &'a Arguments,
        root: &'a Root,
        signals: Signals,
        (supervisor, channel, began): (Pid, OwnedFd, Duration),
        relays: [Relay<'static>; 2],
    ) -> Result<Self, Refused> {
        let timer = Timer::new().map_err(|_| Refused::silent(runner_protocol::EXIT_DISK))?;
        let capture = Capture::new(arguments.shape());
        let take_over_at = began + arguments.timeout + GRACE + BACKSTOP;
        let channel = Some(channel);
        Ok(Self {
            arguments,
            root,
            signals,
            supervisor,
            channel,
            timer,
            began,
            relays,
            capture,
            stopped: None,
            take_over_at,
        })
    }

    /// Watches to the end; `meanwhile` is done beside the script.
    pub fn run(mut self, meanwhile: impl FnOnce()) -> u8 {
        let uid = self.arguments.uid.as_str();
        let [stdout, _] = &mut self.relays;
        stdout.sink.push(start_marker(uid).as_bytes());
        meanwhile();
        let mut record = self.until_ended();
        self.drain();
        let [(out, out_rest), (err, err_rest)] = self.capture.finish();
        let [stdout, stderr] = &mut self.relays;
        stdout.end(&out_rest);
        stderr.end(&err_rest);
        record = Record { stdout: Some(out), stderr: Some(err), ..record };
        if self.arguments.stop_at_cap && self.capture.passed() && record.by == Cause::Script {
            record = supervisor::overflowed(record);
        }
        let _ = self.root.write_record(uid, &record);
        if let Some(channel) = &self.channel {
            channel::send(channel, &Message::Recorded);
        }
        let [stdout, _] = &mut self.relays;
        stdout.sink.push_last(record.ended_line(uid).as_bytes());
        self.pass_on_the_rest();
        record.code
    }

    /// Until the supervisor says how it ended, or has to be stood in for.
    fn until_ended(&mut self) -> Record {
        let mut buffer = Vec::new();
        loop {
            self.timer.fire_at(self.take_over_at);
            let said = self.wait(&mut buffer, None);
            let ended = match (said, &self.channel) {
                (true, Some(channel)) => match channel::receive(channel) {
                    Some((Message::Ended(record), _)) => return record,
                    Some(_) => None,
                    None => Some(Cause::RunnerKilled),
                },
                _ => None,
            };
            if let Some(cause) = ended {
                return self.stand_in(cause);
            }
            while let Some(wish) = self.signals.next() {
                match wish {
                    Wish::Child => {}
                    Wish::Stop => self.stop(&Message::Stop(Cause::Stop), GRACE),
                    Wish::End => self.stop(&Message::End, Duration::ZERO),
                }
            }
            if self.arguments.stop_at_cap && self.capture.passed() && self.stopped.is_none() {
                self.stop(&Message::Stop(Cause::Overflow), GRACE);
            }
            if clock::now() >= self.take_over_at {
                return self.stand_in(Cause::Backstop);
            }
        }
    }

    fn stop(&mut self, message: &Message, grace: Duration) {
        if let Some(channel) = &self.channel {
            channel::send(channel, message);
        }
        let cause = if let Message::Stop(cause) = message { *cause } else { Cause::Stop };
        self.stopped.get_or_insert(cause);
        self.take_over_at = self.take_over_at.min(clock::now() + grace + ANSWERS);
    }

    /// Ends everything without the supervisor: it was killed, or stopped by a signal. Its children are this process's by now.
    fn stand_in(&mut self, cause: Cause) -> Record {
        let _ = kill_process(self.supervisor, Signal::KILL);
        self.channel = None;
        let ended = processes::end(processes::descendants, |_, _| {});
        Record {
            code: KILLED,
            by: self.stopped.unwrap_or(cause),
            ran: clock::now().saturating_sub(self.began),
            ended: ended.found.saturating_sub(ended.remaining),
            remaining: ended.remaining,
            stdout: None,
            stderr: None,
        }
    }

    /// Reads what is left in the pipes; who holds them open beyond a moment loses them.
    fn drain(&mut self) {
        // Nothing that is said now changes how it ended.
        let channel = self.channel.take();
        self.timer.disarm();
        let mut buffer = Vec::new();
        let until = clock::now() + PIPES;
        while self.relays.iter().any(|relay| relay.from.is_some()) {
            let Some(left) = until.checked_sub(clock::now()).filter(|left| !left.is_zero()) else { break };
            self.wait(&mut buffer, Some(left));
            while self.signals.next().is_some() {}
        }
        for relay in &mut self.relays {
            relay.from = None;
        }
        self.channel = channel;
    }

    /// What the caller has not read yet.
    fn pass_on_the_rest(&mut self) {
        let until = clock::now() + LAST_READ;
        loop {
            for relay in &mut self.relays {
                relay.sink.flush();
            }
            let waiting: Vec<_> = self.relays.iter().filter_map(|relay| relay.sink.waits()).collect();
            let left = until.checked_sub(clock::now()).filter(|left| !left.is_zero());
            let (false, Some(left)) = (waiting.is_empty(), left) else { return };
            let mut ready: Vec<_> = waiting.iter().map(|fd| PollFd::new(fd, PollFlags::OUT)).collect();
            let _ = poll(&mut ready, Some(&clock::timespec(left)));
        }
    }

    /// Waits for anything, and moves output. Returns whether the supervisor said something.
    fn wait(&mut self, buffer: &mut Vec<u8>, patience: Option<Duration>) -> bool {
        let (moving, said) = {
            let [stdout, stderr] = &self.relays;
            let sinks = [stdout, stderr].map(|relay| relay.sink.waits());
            let mut ready = Vec::with_capacity(7);
            let mut watched = Vec::with_capacity(7);
            let mut watch = |fd, flags, what| {
                ready.push(PollFd::from_borrowed_fd(fd, flags));
                watched.push(what);
            };
            watch(self.signals.as_fd(), PollFlags::IN, What::Nothing);
            watch(self.timer.as_fd(), PollFlags::IN, What::Nothing);
            if let Some(channel) = &self.channel {
                watch(channel.as_fd(), PollFlags::IN, What::Said);
            }
            for (index, (relay, sink)) in [stdout, stderr].into_iter().zip(&sinks).enumerate() {
                if let Some(from) = &relay.from {
                    watch(from.as_fd(), PollFlags::IN, What::Output(index));
                }
                if let Some(sink) = sink {
                    watch(*sink, PollFlags::OUT, What::Room(index));
                }
            }
            let patience = patience.map(clock::timespec);
            let _ = poll(&mut ready, patience.as_ref());
            let happened: Vec<What> = ready
                .iter()
                .zip(watched)
                .filter(|(ready, _)| !ready.revents().is_empty())
                .map(|(_, what)| what)
                .collect();
            let said = happened.contains(&What::Said);
            (happened, said)
        };
        for (index, relay) in self.relays.iter_mut().enumerate() {
            if moving.contains(&What::Output(index)) {
                relay.read(&mut self.capture, buffer);
            }
            if moving.contains(&What::Room(index)) {
                relay.sink.flush();
            }
        }
        said
    }
}

/// What a descriptor tells when it is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Nothing,
    Said,
    Output(usize),
    Room(usize),
}
