//! Time in the guest: `CLOCK_BOOTTIME`, which goes on while the Sprite is paused and which nobody sets. Must not read the wall clock.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::{
    io,
    time::{
        ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_create,
        timerfd_settime,
    },
};

/// How long the guest has been up.
pub fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// A span as the kernel takes it.
pub fn timespec(span: Duration) -> Timespec {
    Timespec { tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX), tv_nsec: i64::from(span.subsec_nanos()) }
}

/// A short pause between two looks at other processes.
#[expect(clippy::disallowed_methods, reason = "the kernel sends no event for processes that are no children")]
pub fn pause(span: Duration) {
    std::thread::sleep(span);
}

/// Becomes readable at a moment, also when that passed during a pause of the Sprite.
pub struct Timer(OwnedFd);

impl Timer {
    /// One that never fires.
    pub fn new() -> io::Result<Self> {
        timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK).map(Self)
    }

    /// Fires then, and not at the moment set before.
    pub fn fire_at(&self, moment: Duration) {
        let zero = timespec(Duration::ZERO);
        // Zero would disarm it.
        let moment = timespec(moment.max(Duration::from_nanos(1)));
        let value = Itimerspec { it_interval: zero, it_value: moment };
        let _ = timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &value);
    }

    /// Waits for no moment any more.
    pub fn disarm(&self) {
        let zero = timespec(Duration::ZERO);
        let value = Itimerspec { it_interval: zero, it_value: zero };
        let _ = timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &value);
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
