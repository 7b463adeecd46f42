//! Any text as a duration or a size: what is accepted is written back as it was, and means the same again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use api::values::{ByteSize, GoDuration};

fuzz_target!(|text: &str| {
    if let Ok(duration) = text.parse::<GoDuration>() {
        assert_eq!(duration.to_string(), text);
        assert_eq!(duration.to_string().parse::<GoDuration>().as_ref(), Ok(&duration));
        let seconds = duration.get().as_secs();
        assert_eq!(GoDuration::from_secs(seconds).get().as_secs(), seconds);
    }
    if let Ok(size) = text.parse::<ByteSize>() {
        assert_eq!(size.to_string(), text);
        assert_eq!(size.to_string().parse::<ByteSize>().as_ref(), Ok(&size));
    }
    assert!(!text.starts_with('-') || text.parse::<GoDuration>().is_err());
});
