/**
 * For tests that must notice memory that no kernel wrote to: the backends of this test file take
 * their memory from guard pools, which fill each block when they lend it. Import it first.
 */
import { backendOf, manager } from "../backend/internal.ts";
import { isOpenCLAvailable } from "../ffi/mod.ts";
import { GuardPool } from "../memory/mod.ts";

/** Makes a device's backend. Nobody asks who allocated: to note it would take two thirds of the time. */
function watch(name: "cpu" | "cl"): void {
  const { pool } = backendOf(manager.default(name)).memory;
  if (pool instanceof GuardPool) pool.stacks = false;
}

// The variable is read when a backend is made; other test files share the environment.
const former = Deno.env.get("NETCL_DEBUG");
Deno.env.set("NETCL_DEBUG", "1");
try {
  watch("cpu");
  if (isOpenCLAvailable()) watch("cl");
} finally {
  if (former === undefined) Deno.env.delete("NETCL_DEBUG");
  else Deno.env.set("NETCL_DEBUG", former);
}
