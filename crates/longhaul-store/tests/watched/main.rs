//! One suite for every archive that is [`HistoryStore`]: `suite!(a_fresh_one)` makes the tests.
#![expect(clippy::float_cmp, reason = "what was stored comes back bit for bit")]

#[macro_use]
mod suite;
mod sent;
mod times;
mod written;

mod sqlite {
    use crate::suite::Place;
    use longhaul_store::{Archive, HistoryStore};
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU32, Ordering};

    struct File(PathBuf);

    impl Place for File {
        fn open(&self) -> Box<dyn HistoryStore> {
            Box::new(Archive::open(&self.0).expect("the archive opens"))
        }
    }

    impl Drop for File {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(self.0.parent().expect("a folder"));
        }
    }

    static NUMBER: AtomicU32 = AtomicU32::new(0);

    fn fresh() -> Box<dyn Place> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("watched-{number}"));
        let _ = std::fs::remove_dir_all(&folder);
        Box::new(File(folder.join("archive.sqlite3")))
    }

    suite!(fresh);
}
