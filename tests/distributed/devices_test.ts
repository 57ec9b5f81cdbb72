import { assertEquals } from "@std/assert";
import { fileURLToPath } from "node:url";
import { hasPoCL, withTwoDevices } from "../suite/only_pocl.ts";
import { runDeno, runProgram } from "../run_deno.ts";

Deno.test(
  "DataParallel: two devices of one process learn what one learns",
  { ignore: !hasPoCL },
  () =>
    withTwoDevices(async (env) => {
      const program = fileURLToPath(new URL("devices_program.ts", import.meta.url));
      const { code, out, err } = await runDeno(["run", "-A", "--no-check", program], {
        env: { ...env, POCL_MAX_PTHREAD_COUNT: "1", POCL_EXTRA_BUILD_FLAGS: "-cl-opt-disable" },
      });
      assertEquals(code, 0, out + err);
    }),
);

Deno.test(
  "processes that mpirun started on one host take a device each, unless NETCL_DEVICE says which",
  { ignore: !hasPoCL },
  () =>
    withTwoDevices(async (two) => {
      const source = `import { manager } from "${new URL("../../mod.ts", import.meta.url)}";
      console.log(manager.default().selector, manager.default("cl").selector);`;
      const chosen = async (env: Record<string, string>) => {
        const { out } = await runProgram(source, { env: { ...two, ...env } });
        return out.trim();
      };
      const found = await Promise.all([
        ...["0", "1", "2"].map((rank) => chosen({ OMPI_COMM_WORLD_LOCAL_RANK: rank })),
        chosen({ MPI_LOCALRANKID: "1" }),
        chosen({ MPI_LOCALRANKID: "1", NETCL_DEVICE: "cl:0:0" }),
      ]);
      const [first, second] = ["cl:0:0 cl:0:0", "cl:0:1 cl:0:1"];
      assertEquals(found, [first, second, first, second, "cl:0:0 cl:0:1"]);
    }),
);
