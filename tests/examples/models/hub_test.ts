/** Models of a hub on this machine: what is fetched, resumed and refused. */
import { assertEquals, assertRejects } from "@std/assert";
import { createHash } from "node:crypto";
import { hubModel } from "../../../examples/models/hub.ts";
import { inFolder } from "../../temporary_folder.ts";

const bytes = Uint8Array.from({ length: 5000 }, (_, k) => k * 7 % 251);
const sha256 = createHash("sha256").update(bytes).digest("hex");

/** Requests that a hub has seen, and what it sends. */
interface Hub {
  readonly requests: string[];
  /** It knows no ranges. */
  isPlain: boolean;
  /** The content differs from what it lists. */
  isBroken: boolean;
  /** Its connection ends after a thousand bytes. */
  breaksOff: boolean;
}

/** A body that ends with an error. */
function broken(part: Uint8Array): ReadableStream<Uint8Array> {
  let isSent = false;
  return new ReadableStream({
    async pull(controller) {
      if (!isSent) controller.enqueue(part);
      else {
        await delay(100);
        controller.error(new TypeError("gone"));
      }
      isSent = true;
    },
  });
}

const delay = (milliseconds: number) => new Promise((done) => setTimeout(done, milliseconds));

/** Runs a test with a hub of one model, whose files go into a folder. */
function withHub(fn: (hub: Hub, folder: string) => Promise<void>): Promise<void> {
  return inFolder(async (folder) => {
    const hub: Hub = { requests: [], isPlain: false, isBroken: false, breaksOff: false };
    const siblings = [
      { rfilename: "config.json", size: 2 },
      { rfilename: "model.safetensors", lfs: { sha256, size: bytes.length } },
      { rfilename: "README.md", size: 3 },
      { rfilename: "../outside.json", size: 2 },
    ];
    const server = Deno.serve({ port: 0, onListen: () => {} }, (request) => {
      const { pathname } = new URL(request.url), range = request.headers.get("range");
      hub.requests.push(range ? `${pathname} ${range}` : pathname);
      if (pathname === "/api/models/a/good") {
        return Response.json({ siblings: siblings.slice(0, 3) });
      }
      if (pathname === "/api/models/a/evil") return Response.json({ siblings: siblings.slice(3) });
      if (pathname.endsWith("config.json")) return new Response("{}");
      if (!pathname.startsWith("/a/good/")) return new Response("", { status: 401 });
      const sent = hub.isBroken ? bytes.map((byte) => byte ^ 1) : bytes;
      const from = Number(/bytes=(\d+)-/.exec(range ?? "")?.[1] ?? 0);
      if (hub.breaksOff) return new Response(broken(bytes.slice(from, from + 1000)));
      const isRest = range !== null && !hub.isPlain;
      return new Response(isRest ? sent.slice(from) : sent, { status: isRest ? 206 : 200 });
    });
    const former = { HF_ENDPOINT: "", NETCL_MODELS: "" } as Record<string, string | undefined>;
    for (const name of Object.keys(former)) former[name] = Deno.env.get(name);
    Deno.env.set("HF_ENDPOINT", `http://localhost:${server.addr.port}/`);
    Deno.env.set("NETCL_MODELS", folder);
    try {
      await fn(hub, folder);
    } finally {
      for (const [name, value] of Object.entries(former)) {
        if (value === undefined) Deno.env.delete(name);
        else Deno.env.set(name, value);
      }
      await server.shutdown();
    }
  });
}

const file = "/a/good/resolve/main/model.safetensors";

Deno.test("hubModel fetches what a model is made of, once", () =>
  withHub(async (hub, folder) => {
    assertEquals(await hubModel("a/good"), `${folder}/a/good`);
    assertEquals(await Deno.readFile(`${folder}/a/good/model.safetensors`), bytes);
    const due = ["/api/models/a/good", "/a/good/resolve/main/config.json", file];
    assertEquals(hub.requests, due);
    assertEquals(await hubModel("a/good"), `${folder}/a/good`);
    assertEquals(hub.requests, due);
  }));

for (const isPlain of [false, true]) {
  const how = isPlain ? "from the start where the hub knows no ranges" : "from where it broke off";
  Deno.test(`hubModel goes on with a file ${how}`, () =>
    withHub(async (hub, folder) => {
      hub.isPlain = isPlain;
      await Deno.mkdir(`${folder}/a/good`, { recursive: true });
      await Deno.writeFile(`${folder}/a/good/model.safetensors.part`, bytes.slice(0, 1234));
      const path = await hubModel("a/good/model.safetensors");
      assertEquals(await Deno.readFile(path), bytes);
      assertEquals(hub.requests, ["/api/models/a/good", `${file} bytes=1234-`]);
    }));
}

Deno.test("hubModel refuses a content that is not what the hub lists, and fetches it anew", () =>
  withHub(async (hub, folder) => {
    hub.isBroken = true;
    await assertRejects(() => hubModel("a/good"), Error, "model.safetensors is not what");
    const left = [...Deno.readDirSync(`${folder}/a/good`)].map(({ name }) => name).sort();
    assertEquals(left, ["config.json"]);
    hub.isBroken = false;
    await hubModel("a/good");
    assertEquals(await Deno.readFile(`${folder}/a/good/model.safetensors`), bytes);
  }));

Deno.test("hubModel says how to do without a hub that cannot be reached, and what is kept where one breaks off", () =>
  withHub(async (hub, folder) => {
    hub.breaksOff = true;
    await assertRejects(() => hubModel("a/good"), Error, "run it again: what has come is kept");
    hub.breaksOff = false;
    await hubModel("a/good");
    assertEquals(await Deno.readFile(`${folder}/a/good/model.safetensors`), bytes);
    const free = Deno.listen({ port: 0 });
    Deno.env.set("HF_ENDPOINT", `http://localhost:${free.addr.port}`);
    free.close();
    await assertRejects(() => hubModel("a/other"), Error, "HF_ENDPOINT names another host");
  }));

Deno.test("hubModel refuses files outside of the model, and says what a closed model needs", () =>
  withHub(async () => {
    await assertRejects(() => hubModel("a/evil/../outside.json"), Error, "outside");
    await assertRejects(() => hubModel("a/closed"), Error, "HF_TOKEN");
    await assertRejects(() => hubModel("a/good/none.gguf"), Error, "no such file");
  }));
