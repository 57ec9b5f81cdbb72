/** Systems and processors as they are written down, beside the one that runs this. */
import { assert, assertEquals } from "@std/assert";
import { constants } from "node:os";
import { futexNumbers } from "../../../ffi/host/shared_memory.ts";
import { libcNames, openKernel32, openLibc } from "../../../ffi/host/libc.ts";
import { libraryFiles, libraryPlaceOf, libraryPlaces } from "../../../ffi/library/library_names.ts";
import { sigaction, signalNumbers } from "../../../ffi/library/signals.ts";
import { host } from "../../../ffi/runtime/host.ts";

const isLinux = host.os === "linux";
// Open for the life of the process, as netcl has it.
const libc = openLibc({ getpid: { parameters: [], result: "i32" } })?.symbols;
const kernel = openKernel32({ GetCurrentProcessId: { parameters: [], result: "u32" } })?.symbols;
const linux = isLinux
  ? openLibc({
    sigaction: { parameters: ["i32", "buffer", "buffer"], result: "i32" },
    // The calls' other arguments are not looked at.
    syscall: { parameters: ["i64", "buffer", "i32", "i32", "buffer"], result: "i64" },
    clock_gettime: { parameters: ["i32", "buffer"], result: "i32" },
  })!.symbols
  : null!;
const loader = isLinux
  ? openLibc({
    dlopen: { parameters: ["buffer", "i32"], result: "u64", optional: true },
    dlclose: { parameters: ["u64"], result: "i32", optional: true },
  })!.symbols
  : null!;
const SIG_IGN = 1n, SA_RESTART = 0x10000000;

Deno.test("signalNumbers are the system's", { ignore: host.os === "windows" }, () => {
  const known: Record<string, number> = constants.signals;
  for (const [name, number] of Object.entries(signalNumbers)) {
    assertEquals(number, known[name], name);
  }
});

Deno.test("libcNames: each system but Windows has a C library that opens, Windows has kernel32", () => {
  assertEquals(Object.keys(libcNames), ["linux", "darwin"]);
  const isWindows = host.os === "windows";
  assertEquals([libc === undefined, kernel === undefined], [isWindows, !isWindows]);
  assertEquals(libc?.getpid() ?? kernel?.GetCurrentProcessId(), host.pid);
});

Deno.test("sigaction: flags lie where they are written, and the handler is first", {
  ignore: !isLinux,
}, () => {
  const SIGURG = constants.signals.SIGURG, set = new DataView(new ArrayBuffer(sigaction.bytes));
  const former = new Uint8Array(sigaction.bytes), read = new Uint8Array(sigaction.bytes + 8);
  set.setBigUint64(0, SIG_IGN, true);
  set.setUint32(sigaction.flags, SA_RESTART, true);
  read.fill(0xAA);
  assertEquals(linux.sigaction(SIGURG, new Uint8Array(set.buffer), former), 0);
  assertEquals(linux.sigaction(SIGURG, former, read), 0);
  const view = new DataView(read.buffer);
  assertEquals(view.getBigUint64(0, true), SIG_IGN);
  assertEquals(view.getUint32(sigaction.flags, true) & SA_RESTART, SA_RESTART);
  assertEquals([...read.subarray(sigaction.bytes)], Array(8).fill(0xAA)); // no byte behind its end
});

Deno.test(
  "futexNumbers: the call of this processor wakes nobody, and finds a word that has changed",
  { ignore: !isLinux },
  () => {
    const FUTEX_WAIT = 0, FUTEX_WAKE = 1, word = new Int32Array([7]);
    const number = futexNumbers[host.arch]!;
    assert(number !== undefined, host.arch);
    assertEquals(linux.syscall(number, word, FUTEX_WAKE, 1, null), 0n);
    assertEquals(linux.syscall(number, word, FUTEX_WAIT, 8, null), -1n);
  },
);

Deno.test("struct timespec is seconds and nanoseconds of 64 bits", { ignore: !isLinux }, () => {
  const CLOCK_REALTIME = 0, time = new BigInt64Array(2);
  assertEquals(linux.clock_gettime(CLOCK_REALTIME, time), 0);
  const milliseconds = Number(time[0]) * 1000 + Number(time[1]) / 1e6;
  assert(Math.abs(milliseconds - Date.now()) < 10_000, `${milliseconds}`);
});

Deno.test("libraryPlaces: the loader's names and files on each system", () => {
  const { linux, darwin, windows } = libraryPlaces;
  const filesOf = (place: typeof linux, arch: string) => libraryFiles(place, place.names, arch);
  assertEquals(linux.names, ["libOpenCL.so.1", "libOpenCL.so"]);
  assertEquals(
    ["x86_64", "aarch64"].map((arch) => filesOf(linux, arch)[0]),
    ["/usr/lib/x86_64-linux-gnu/libOpenCL.so.1", "/usr/lib/aarch64-linux-gnu/libOpenCL.so.1"],
  );
  assertEquals(darwin.names, ["/System/Library/Frameworks/OpenCL.framework/OpenCL"]);
  assertEquals(filesOf(darwin, "aarch64"), darwin.names);
  assertEquals(windows.names, ["OpenCL.dll"]);
  assertEquals(filesOf(windows, "x86_64"), ["C:\\Windows\\System32\\OpenCL.dll"]);
  // A path that a variable gives stays as it is, on both kinds of systems.
  assertEquals(libraryFiles(windows, ["D:\\own\\OpenCL.dll"], "x86_64"), ["D:\\own\\OpenCL.dll"]);
  assertEquals(libraryFiles(linux, ["/own/libOpenCL.so"], "x86_64"), ["/own/libOpenCL.so"]);
  assertEquals(libraryPlaceOf({ os: "freebsd" as never }), linux);
});

Deno.test({
  name:
    "libraryPlaces: dlopen's flags keep a library in the process that is closed as often as opened",
  ignore: !isLinux,
  fn() {
    if (!loader.dlopen || !loader.dlclose) return; // before glibc 2.34 they are in libdl
    const name = new TextEncoder().encode("libanl.so.1\0"), RTLD_NOLOAD = 4, RTLD_NOW = 2;
    assertEquals(loader.dlopen(name, RTLD_NOLOAD | RTLD_NOW), 0n, "nobody has it yet");
    const library = loader.dlopen(name, libraryPlaceOf(host).keepLoaded) as bigint;
    assert(library !== 0n);
    assertEquals(loader.dlclose(library), 0);
    assert(loader.dlopen(name, RTLD_NOLOAD | 2) !== 0n, "it is gone");
  },
});
