/** Test for the end of a process that this one started, while JavaScript is blocked. */
import { host } from "../../../ffi/runtime/host.ts";
import { libc } from "../../lifecycle/libc.ts";

/** `waitid` for one process, without waiting, and so that the runtime finds its status as well (Linux). */
const P_PID = 1, WNOHANG = 1, WEXITED = 4, WNOWAIT = 0x01000000;
const SIGINFO_BYTES = 128;

/** True for a child that has ended; false where it runs, or cannot be asked. */
export function hasEnded(pid: number): boolean {
  const functions = host.os === "linux" ? libc() : null;
  if (functions === null) return false;
  const info = new Int32Array(SIGINFO_BYTES / 4);
  const status = functions.waitid(P_PID, pid, info, WNOHANG | WEXITED | WNOWAIT);
  // A failure means that there is no such child any more; a signal number, that it has ended.
  return status !== 0 || info[0] !== 0;
}
