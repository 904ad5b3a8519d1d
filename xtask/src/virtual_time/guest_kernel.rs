//! The kernel of the guests: given by `LONGHAUL_VT_KERNEL`, or built once from Debian's package of
//! the Linux sources and cached in the target folder.

use crate::program_runner::{self, show_and_run};
use crate::{TaskResult, checkout, test_requirements};
use std::fs;
use std::io::{BufReader, BufWriter};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Names a prebuilt kernel: an executable, or one compressed by xz.
pub const KERNEL_VARIABLE: &str = "LONGHAUL_VT_KERNEL";
const SOURCES: &str = "linux-source-6.12";
const CONFIG: &str = include_str!("kernel.config");
const SHIM: &str = include_str!("xsave.c");
/// Debian packages that the build needs besides a C compiler.
const BUILD_TOOLS: [&str; 6] = ["flex", "bison", "bc", "libelf-dev", "xz-utils", "rsync"];

/// A kernel and the library that it is started with.
#[derive(Debug, Clone)]
pub struct GuestKernel {
    pub executable: PathBuf,
    pub shim: PathBuf,
}

impl GuestKernel {
    /// Finds the given kernel or a previously built one.
    pub fn find() -> Result<GuestKernel, String> {
        // Tests of one program may ask at the same time.
        static PREPARING: Mutex<()> = Mutex::new(());
        let _guard = PREPARING.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = cache_folder()?;
        let executable = match std::env::var_os(KERNEL_VARIABLE) {
            Some(file) => unpack_kernel(Path::new(&file), &folder)?,
            None => folder.join("linux"),
        };
        if !executable.is_file() {
            return Err(format!(
                "there is no kernel for virtual time: run `cargo xtask kernel` as root on Debian 12 \
                 (it builds one from {SOURCES} in about five CPU minutes), or name one with \
                 {KERNEL_VARIABLE}=FILE"
            ));
        }
        let shim = build_shim(&folder)?;
        Ok(GuestKernel { executable, shim })
    }
}

/// Finds a kernel, or builds one if possible.
pub fn ensure_kernel() -> TaskResult {
    let found = GuestKernel::find();
    if found.is_ok() || !test_requirements::can_install() {
        return found.map(|kernel| println!("kernel: {}", kernel.executable.display()));
    }
    build_kernel(&cache_folder()?)?;
    GuestKernel::find().map(drop)
}

/// Returns the cache folder for this kernel configuration.
fn cache_folder() -> Result<PathBuf, String> {
    let folder = program_runner::target_folder()?.join("virtual-time");
    fs::create_dir_all(&folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
    Ok(folder)
}

/// Decompresses a given `.xz` file into the cache; any other file is used where it is.
fn unpack_kernel(given: &Path, folder: &Path) -> Result<PathBuf, String> {
    if given.extension().is_none_or(|it| it != "xz") {
        return Ok(given.to_owned());
    }
    let cannot = |e: String| format!("cannot unpack {KERNEL_VARIABLE}={}: {e}", given.display());
    let modified = |path: &Path| fs::metadata(path).and_then(|it| it.modified()).ok();
    let unpacked = folder.join("linux-given");
    if modified(&unpacked).is_some_and(|it| Some(it) > modified(given)) {
        return Ok(unpacked);
    }
    let packed = fs::File::open(given).map_err(|e| cannot(e.to_string()))?;
    write_executable(&unpacked, |file| {
        lzma_rs::xz_decompress(&mut BufReader::new(packed), file).map_err(|e| format!("{e:?}"))
    })
    .map_err(cannot)?;
    Ok(unpacked)
}

/// Writes an executable atomically.
fn write_executable(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<fs::File>) -> TaskResult,
) -> TaskResult {
    let partial = path.with_extension(format!("{}.partial", std::process::id()));
    let file = fs::File::create(&partial).map_err(|e| e.to_string())?;
    let mut file = BufWriter::new(file);
    write(&mut file)?;
    file.into_inner().map_err(|e| e.to_string())?;
    fs::set_permissions(&partial, fs::Permissions::from_mode(0o755))
        .and_then(|()| fs::rename(&partial, path))
        .map_err(|e| e.to_string())
}

/// Compiles the library that lets the kernel run on processors with AMX.
fn build_shim(folder: &Path) -> Result<PathBuf, String> {
    let (source, library) = (folder.join("xsave.c"), folder.join("xsave.so"));
    if fs::read_to_string(&source).is_ok_and(|text| text == SHIM) && library.is_file() {
        return Ok(library);
    }
    let partial = folder.join(format!("xsave.{}.so", std::process::id()));
    fs::write(&source, SHIM).map_err(|e| format!("cannot write {}: {e}", source.display()))?;
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-shared", "-fPIC", "-o"]);
    program_runner::capture_stdout(compiler.arg(&partial).arg(&source), test_requirements::MINUTE)?;
    fs::rename(&partial, &library).map_err(|e| e.to_string())?;
    Ok(library)
}

/// Builds the kernel from Debian's package of its sources; needs root and apt-get.
fn build_kernel(folder: &Path) -> TaskResult {
    println!("kernel: building from {SOURCES}, about five CPU minutes, once");
    test_requirements::install_packages(&BUILD_TOOLS)?;
    let sources = folder.join("sources");
    let _ = fs::remove_dir_all(&sources);
    fs::create_dir_all(&sources).map_err(|e| e.to_string())?;
    fs::write(sources.join("fragment"), CONFIG).map_err(|e| e.to_string())?;
    let script = format!(
        "set -e
         apt-get download {SOURCES}
         dpkg-deb --extract {SOURCES}_*.deb package
         tar --extract --file package/usr/src/{SOURCES}.tar.xz
         cd {SOURCES}
         make -s ARCH=um defconfig
         scripts/kconfig/merge_config.sh -m .config ../fragment >/dev/null
         make -s ARCH=um olddefconfig
         make -s ARCH=um -j\"$(nproc)\" linux
         strip -o ../../linux.partial linux
         mv ../../linux.partial ../../linux"
    );
    let mut shell = Command::new("sh");
    shell.current_dir(&sources).args(["-c", &script]);
    show_and_run(&mut shell)?;
    fs::remove_dir_all(&sources).map_err(|e| format!("cannot remove {}: {e}", sources.display()))
}

/// Returns the script with which a guest starts, in the checkout.
pub fn find_init_script() -> PathBuf {
    checkout::find_root().join("xtask/src/virtual_time/init.sh")
}
