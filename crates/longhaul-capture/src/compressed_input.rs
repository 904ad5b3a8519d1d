//! Compressed files: gzip, xz and zstd, recognised by their first bytes.
//!
//! The files are not trusted: memory and the growth of the data are limited.

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const XZ_MAGIC: [u8; 6] = [0xfd, b'7', b'z', b'X', b'Z', 0];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const BUFFER_BYTES: usize = 64 << 10;
/// The maximum memory of the decompressor of xz; that of zstd has the same limit of its own.
const MAX_MEMORY_KIB: u32 = 128 << 10;
/// The data may be so many times as large as the file, and this much larger in any case.
const MAX_GROWTH: u64 = 300;
const FREE_BYTES: u64 = 16 << 20;

/// Returns a reader of the decompressed data, or of the data itself if it is not compressed.
///
/// # Errors
/// The input cannot be read. Reading fails later where the data is damaged, or has grown beyond the
/// limit.
pub fn decompress<'a>(mut input: impl Read + Send + 'a) -> io::Result<Box<dyn Read + Send + 'a>> {
    let mut magic = Vec::new();
    input.by_ref().take(XZ_MAGIC.len() as u64).read_to_end(&mut magic)?;
    let count = Arc::new(AtomicU64::new(0));
    let counted = CountedInput { input, count: count.clone() };
    let head = Cursor::new(magic.clone());
    let whole = BufReader::with_capacity(BUFFER_BYTES, head.chain(counted));
    let output: Box<dyn Read + Send + 'a> = if magic.starts_with(&GZIP_MAGIC) {
        Box::new(MultiGzDecoder::new(whole))
    } else if magic.starts_with(&XZ_MAGIC) {
        Box::new(XzReader::new_mem_limit(whole, true, MAX_MEMORY_KIB))
    } else if magic.starts_with(&ZSTD_MAGIC) {
        Box::new(ZstdFrames { decoder: FrameDecoder::new(), is_inside: false, input: whole })
    } else {
        return Ok(Box::new(whole));
    };
    Ok(Box::new(LimitedGrowth { output, input_bytes: count, output_bytes: 0 }))
}

/// An input whose bytes are counted.
struct CountedInput<R> {
    input: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for CountedInput<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Decompressed data that may grow by a limited factor only.
struct LimitedGrowth<R> {
    output: R,
    input_bytes: Arc<AtomicU64>,
    output_bytes: u64,
}

impl<R: Read> Read for LimitedGrowth<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.output.read(buffer)?;
        self.output_bytes += read as u64;
        let input_bytes = self.input_bytes.load(Ordering::Relaxed);
        if self.output_bytes > FREE_BYTES + MAX_GROWTH.saturating_mul(input_bytes) {
            let why = format!("the compressed data grows by a factor of more than {MAX_GROWTH}");
            return Err(io::Error::other(why));
        }
        Ok(read)
    }
}

/// The frames of a zstd file one after the other; the library reads a single one.
struct ZstdFrames<R> {
    decoder: FrameDecoder,
    is_inside: bool,
    input: R,
}

impl<R: BufRead> ZstdFrames<R> {
    /// Begins the next frame, or skips one that has no data. Returns false at the end of the input.
    fn begin_frame(&mut self) -> io::Result<bool> {
        if self.input.fill_buf()?.is_empty() {
            return Ok(false);
        }
        match self.decoder.init(&mut self.input) {
            Ok(()) => self.is_inside = true,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => {
                io::copy(&mut self.input.by_ref().take(u64::from(length)), &mut io::sink())?;
            }
            Err(error) => return Err(io::Error::other(error.to_string())),
        }
        Ok(true)
    }
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.is_inside && self.decoder.can_collect() > 0 {
                return self.decoder.read(buffer);
            }
            if self.is_inside && !self.decoder.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.input, one).map_err(io::Error::other)?;
            } else if !self.begin_frame()? {
                return Ok(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packed.write_all(data).expect("in memory");
        packed.finish().expect("in memory")
    }

    fn zstd(data: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(data, ruzstd::encoding::CompressionLevel::Fastest)
    }

    fn unpack(packed: &[u8]) -> io::Result<Vec<u8>> {
        let mut data = Vec::new();
        decompress(packed)?.read_to_end(&mut data)?;
        Ok(data)
    }

    #[test]
    fn all_members_of_a_compressed_file_are_read() {
        let parts = [b"one, and ".repeat(50), b"two".repeat(20_000)];
        let whole = parts.concat();
        for pack in [gzip as fn(&[u8]) -> Vec<u8>, zstd] {
            let packed: Vec<u8> = parts.iter().flat_map(|part| pack(part)).collect();
            assert_eq!(unpack(&packed).expect("readable"), whole);
            assert!(unpack(&packed[..packed.len() - 9]).is_err(), "truncated");
        }
        let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3], &zstd(b"x")[..]].concat();
        assert_eq!(unpack(&[zstd(b"y"), skippable].concat()).expect("readable"), b"yx");
        for data in [&b""[..], b"no", b"not compressed"] {
            assert_eq!(unpack(data).expect("as it is"), data);
        }
    }

    #[test]
    fn data_that_grows_beyond_the_limit_is_refused() {
        let zeros = vec![0; 2 * FREE_BYTES as usize];
        assert!(unpack(&gzip(&zeros)).is_err());
        assert!(unpack(&gzip(&zeros[..1 << 20])).is_ok());
    }
}
