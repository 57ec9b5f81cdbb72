/**
 * For tests that must notice memory that no kernel wrote to: the backends of this test file take
 * their memory from guard pools, which fill each block when they lend it. Import it first.
 */
import { backendOf, manager } from "../backend/internal.ts";
import { isOpenCLAvailable } from "../ffi/mod.ts";

// The variable is read when a backend is made; other test files share the environment.
const former = Deno.env.get("NETCL_DEBUG");
Deno.env.set("NETCL_DEBUG", "1");
try {
  backendOf(manager.default("cpu"));
  if (isOpenCLAvailable()) backendOf(manager.default("cl"));
} finally {
  if (former === undefined) Deno.env.delete("NETCL_DEBUG");
  else Deno.env.set("NETCL_DEBUG", former);
}
