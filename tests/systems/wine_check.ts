/**
 * Runs Windows' Deno in wine: training, Ctrl+C, tests, programs of acceptance, built in and on OpenCL.
 *
 *     deno run -A tests/systems/wine_check.ts [--folder FOLDER] [--share] [file of tests, or program ...]
 *
 * Wine, PoCL and deno.exe are put below the folder (2 GB; default "netcl-wine" beside other temporary files),
 * where they are found the next time. With --share it runs a minute's share, and nothing where the folder has
 * no wine. Tests that wine cannot pass are in `wine_left_out.ts`, with reasons.
 */
import { availableParallelism, tmpdir } from "node:os";
import { parseArgs } from "node:util";
import { mayEnter, repository } from "./root.ts";
import { type Ended, type Job, runJobs } from "./side_by_side.ts";
import { hasWine, installWine, type Wine } from "./wine.ts";
import { typing } from "./typing.ts";

/** Seconds until a program that hangs is ended: kernels are compiled from nothing. */
const TIME_LIMIT = 400;

/** Programs by the devices that they are run on; 08, 14 and 16 have paths of Unix, 13 wants mpirun. */
const acceptance = {
  cl: ["01", "02", "03", "04", "05", "06", "07", "09", "10", "11", "12", "15"],
  cpu: ["05", "06", "07", "09", "10", "12", "15"],
};
const tests = [
  "tests/ffi/events",
  "tests/ffi/host",
  "tests/ffi/kernels",
  "tests/ffi/library/library_test.ts",
  "tests/ffi/memory",
  "tests/ffi/objects",
  "tests/ffi/queue",
  "tests/memory",
  "tests/backend/devices",
  "tests/backend/opencl/runtime/binary_cache_test.ts",
];
const share = ["tests/ffi/host/atomic_file_test.ts", "tests/memory/pools/slab_pool_test.ts"];

type Device = keyof typeof acceptance;
const devices: readonly Device[] = ["cpu", "cl"];

/** LLVM takes the signal by which wine ends threads: a program with PoCL may end so after its last line. */
const WINE_QUIT = 131;
const isWell = ({ code, output }: Ended, last: RegExp): boolean =>
  code === 0 || code === WINE_QUIT && last.test(output);

function train(wine: Wine, device: Device): Job {
  const args = ["run", "-A", "--no-check", "--config", "deno.json", "examples/train.ts"];
  const folder = String.raw`C:\users\Public\out ${device}`;
  return {
    name: `train (${device})`,
    command: wine.deno([...args, "--epochs", "2", "--out", folder], { NETCL_DEVICE: device }),
    isMet: (ended) => isWell(ended, /^accuracy: +0\.9/m),
  };
}

function program(wine: Wine, path: string, device: Device): Job {
  const args = ["run", "-A", "--no-check", "--config", "deno.json", path];
  return {
    name: `${path} (${device})`,
    command: wine.deno(args, { NETCL_DEVICE: device }),
    isMet: (ended) => isWell(ended, /^\w+: met\r?$/m),
  };
}

function testing(wine: Wine, path: string): Job {
  const preload = "--preload=tests/systems/wine_leave_out.ts";
  return {
    name: path,
    command: wine.deno(["test", "-A", "--no-check", preload, path]),
    isMet: (ended) => isWell(ended, /^ok \| \d+ passed/m),
  };
}

function programsOf(device: Device): string[] {
  const folder = `${repository}../shared/acceptance`;
  try {
    const names = [...Deno.readDirSync(folder)].map(({ name }) => name).sort();
    return names.filter((name) => acceptance[device].includes(name.slice(0, 2)))
      .map((name) => `../shared/acceptance/${name}`);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

/** Low byte of STATUS_CONTROL_C_EXIT, as Unix is told it. */
const CONTROL_C = 0x3A;

/** Ctrl+C at a program's terminal: what it says, and its status. */
function interrupting(wine: Wine, device: Device): Job[] {
  const cases = [
    ["saving", 1, 130, /^ready.*\naborted\nsaved\n$/],
    ["careless", 1, CONTROL_C, /^ready.*\n$/],
    ["idle", 1, CONTROL_C, /^ready.*\n$/],
    ["idle", 2, CONTROL_C, /^ready.*\n$/],
  ] as const;
  return cases.map(([state, times, code, said], k) => {
    const file = `/tmp/ctrl_c_${device}_${k}`;
    const args = ["run", "-A", "--no-check", "tests/systems/ctrl_c_program.ts", state, `Z:${file}`];
    const command = wine.deno(args, { NETCL_DEVICE: device });
    return {
      name: `Ctrl+C, ${times} times, ${state} (${device})`,
      command: typing(command, `${wine.root}${file}`, times),
      isMet: (ended) => ended.code === code && said.test(ended.output.replaceAll("\r", "")),
    };
  });
}

async function main(): Promise<boolean> {
  const { values, positionals } = parseArgs({
    args: Deno.args,
    allowPositionals: true,
    options: {
      folder: { type: "string", default: `${tmpdir()}/netcl-wine` },
      share: { type: "boolean", default: false },
    },
  });
  if (values.share && !hasWine(values.folder)) {
    console.log("There is no wine: `deno task test:wine` installs it in a folder of its own");
    return true;
  }
  const reason = await mayEnter();
  if (reason !== null) {
    console.log(`Windows' programs do not run here: ${reason}`);
    return values.share;
  }
  const wine = await installWine(values.folder);
  const chosen = positionals.map((path) =>
    /(?:^|\/)\d\d_\w+\.ts$/.test(path) ? program(wine, path, "cl") : testing(wine, path)
  );
  const jobs = chosen.length > 0 ? chosen : [
    ...devices.map((device) => train(wine, device)),
    ...(values.share ? share : tests).map((path) => testing(wine, path)),
    ...devices.flatMap((device) =>
      programsOf(device).slice(0, values.share ? 1 : undefined).map((path) =>
        program(wine, path, device)
      )
    ),
  ];
  const ok = await runJobs(jobs, { atOnce: availableParallelism(), limit: TIME_LIMIT });
  if (chosen.length > 0) return ok;
  // A grace window is a time: nothing beside it.
  const states = devices.flatMap((device) => interrupting(wine, device));
  return await runJobs(states.slice(0, values.share ? 3 : undefined), {
    atOnce: 1,
    limit: TIME_LIMIT,
  }) && ok;
}

Deno.exit(await main() ? 0 : 1);
