//! Properties of every decoder: it takes little memory, and what it accepts has one encoding.

/// The most memory that a decoder may hold at one time.
#[derive(Clone, Copy)]
pub(crate) struct Bound {
    /// Bytes for any input.
    pub(crate) base: usize,
    /// Bytes for each byte of the input.
    pub(crate) per_byte: usize,
}

/// Runs a decoder and checks how much memory it took.
pub(crate) fn bounded<T>(input: &[u8], bound: Bound, decode: impl FnOnce() -> T) -> T {
    let mut decoded = None;
    let taken = allocation_counter::measure(|| decoded = Some(decode())).bytes_max;
    let most = bound.base + bound.per_byte * input.len();
    assert!(taken <= most as u64, "{} bytes of input took {taken} bytes of memory, {most} is the most", input.len());
    decoded.expect("it was run")
}

/// Decodes and encodes again. `None` if the bytes are refused.
pub(crate) type Again = fn(&[u8]) -> Option<Vec<u8>>;

/// The encoding of a decoded value decodes to the same value. Returns the encoding.
pub(crate) fn same_again(input: &[u8], bound: Bound, again: Again) -> Option<Vec<u8>> {
    let once = bounded(input, bound, || again(input))?;
    let twice = again(&once).expect("what was encoded is decoded");
    assert!(once == twice, "decoded and encoded it became {once:02x?}, and once more {twice:02x?}");
    Some(once)
}

/// As [`same_again`]. Also, no byte may follow or be missing, and no encoding is shorter than ours.
pub(crate) fn strict(input: &[u8], bound: Bound, again: Again) {
    let Some(once) = same_again(input, bound, again) else { return };
    assert!(once.len() <= input.len(), "{} bytes became {} bytes", input.len(), once.len());
    whole(input, &[0], |bytes| again(bytes).is_some());
}

/// As [`strict`], where every value has exactly one encoding.
pub(crate) fn canonical(input: &[u8], bound: Bound, again: Again) {
    let Some(once) = bounded(input, bound, || again(input)) else { return };
    assert!(once == input, "it is encoded otherwise: {once:02x?}");
    whole(input, &[0], |bytes| again(bytes).is_some());
}

/// Bytes that are accepted are refused when something follows or the last one is missing.
pub(crate) fn whole(input: &[u8], more: &[u8], accepts: impl Fn(&[u8]) -> bool) {
    assert!(!accepts(&[input, more].concat()), "trailing bytes are accepted");
    if let Some((_, cut)) = input.split_last() {
        assert!(!accepts(cut), "bytes without their end are accepted");
    }
}
