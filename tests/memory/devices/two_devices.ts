/**
 * Moves a value between two devices and back, in one context and in two: run by two_devices_test.ts in a
 * process of its own, since PoCL reads POCL_DEVICES once. Prints what happened as JSON.
 */
import { CommandQueue, Context, liveObjects, platforms } from "../../../ffi/mod.ts";
import {
  destroyContextPools,
  DeviceMemory,
  SlabPool,
  Storage,
  transfer,
  type TransferPath,
} from "../../../memory/mod.ts";

const pocl = platforms().find(({ name }) => name.includes("Portable Computing Language"))!;
const devices = pocl.devices();
const N = 2 ** 20;

function memoryOf(queue: CommandQueue): DeviceMemory {
  return new DeviceMemory(new SlabPool(queue), { name: queue.device.name, queue });
}

function roundTrip(first: CommandQueue, second: CommandQueue) {
  const [a, b] = [memoryOf(first), memoryOf(second)];
  const paths: TransferPath[] = [];
  const transport = (source: Storage, target: Storage) => {
    paths.push(transfer(source as Storage<unknown>, target as Storage<unknown>));
  };
  const original = new Storage(a, a.allocate(4 * N));
  const values = Float32Array.from({ length: N }, (_, i) => i);
  first.write(original.handle.buffer, values).release();
  const there = original.copyOn(b, transport);
  const back = there.copyOn(a, transport);
  const again = back.copyOn(b, transport);
  const out = new Float32Array(N);
  second.read(again.handle.buffer, out, { blocking: true }).release();
  // After a write on the first device the second one's copy is old, and is made anew.
  first.fill(original.handle.buffer, new Float32Array([7]), { nbytes: 4 * N }).release();
  original.markWritten();
  const renewed = original.copyOn(b, transport);
  const sevens = new Float32Array(N);
  second.read(renewed.handle.buffer, sevens, { blocking: true }).release();
  const old = new Float32Array(N);
  second.read(again.handle.buffer, old, { blocking: true }).release();
  a.destroy();
  b.destroy();
  return {
    paths,
    arrived: out.every((value, i) => value === values[i]),
    shared: back === original && again === there,
    renewed: sevens.every((value) => value === 7),
    kept: old.every((value, i) => value === values[i]),
  };
}

function inOneContext() {
  using context = new Context(devices.slice(0, 2));
  using first = new CommandQueue(context, devices[0]),
    second = new CommandQueue(context, devices[1]);
  return roundTrip(first, second);
}

function inTwoContexts() {
  using one = new Context(devices[0]!), two = new Context(devices[1]!);
  using first = new CommandQueue(one), second = new CommandQueue(two);
  const result = roundTrip(first, second);
  destroyContextPools(one);
  destroyContextPools(two);
  return result;
}

const oneContext = inOneContext(), twoContexts = inTwoContexts();
const left = Object.entries(liveObjects()).filter(([, count]) => count > 0);
console.log(JSON.stringify({ devices: devices.length, oneContext, twoContexts, left }));
