/**
 * Every kind of pool, on every kind of memory that the machine has: what the conformance suite runs over. A
 * new pool is one more line here.
 */
import { CommandQueue, Context } from "../../../ffi/mod.ts";
import {
  BufferPool,
  FaultPool,
  GuardPool,
  HostPool,
  LimitPool,
  PersistentBufferPool,
  PinnedBufferPool,
  type Pool,
  SimulatedSource,
  SlabPool,
  SvmPool,
} from "../../../memory/mod.ts";

import { device, hasOpenCL } from "../../ffi/fixture.ts";

/** A pool and what is particular about it. */
export interface PoolUnderTest {
  readonly name: string;
  /** Makes a fresh one. */
  // deno-lint-ignore no-explicit-any -- the suite treats all kinds of memory alike
  make(): Pool<any>;
  /** Divides what it gets from the driver, so that blocks begin at offsets. */
  readonly divides?: boolean;
  /** Has something in a caller's hands that differs from the upstream's figures. */
  readonly keepsBack?: boolean;
}

const simulated = () => new SimulatedSource({ alignment: 512 });

/** The queue that the OpenCL pools are made for; opened once, for all tests. */
export const queue = hasOpenCL ? new CommandQueue(new Context(device)) : null;

/** The pools. */
export const poolsUnderTest: PoolUnderTest[] = [
  { name: "BufferPool, simulated", make: () => new BufferPool(simulated()) },
  { name: "PersistentBufferPool, simulated", make: () => new PersistentBufferPool(simulated()) },
  { name: "SlabPool, simulated", make: () => new SlabPool(simulated()), divides: true },
  {
    name: "SlabPool of whole buffers, simulated",
    make: () => new SlabPool(simulated(), { subBuffers: false }),
  },
  { name: "HostPool", make: () => new HostPool(), divides: true },
  {
    name: "LimitPool",
    make: () => new LimitPool(new SlabPool(simulated()), 2 ** 40),
    divides: true,
  },
  { name: "FaultPool", make: () => new FaultPool(new SlabPool(simulated())), divides: true },
  {
    name: "GuardPool",
    make: () => GuardPool.forHost(new HostPool(), { quarantineBytes: 0 }),
    divides: true,
    keepsBack: true,
  },
];

if (queue !== null) {
  const cl = queue;
  poolsUnderTest.push(
    { name: "BufferPool of a context", make: () => new BufferPool(cl.context) },
    { name: "BufferPool of a queue", make: () => new BufferPool(cl) },
    { name: "PersistentBufferPool", make: () => new PersistentBufferPool(cl) },
    { name: "PinnedBufferPool", make: () => new PinnedBufferPool(cl) },
    { name: "SlabPool", make: () => new SlabPool(cl), divides: true },
    { name: "SlabPool of whole buffers", make: () => new SlabPool(cl, { subBuffers: false }) },
    {
      name: "GuardPool of a queue",
      make: () => GuardPool.forQueue(new SlabPool(cl), cl, { quarantineBytes: 0 }),
      divides: true,
      keepsBack: true,
    },
  );
  if (SvmPool.isAvailable(cl)) {
    poolsUnderTest.push({ name: "SvmPool", make: () => new SvmPool(cl), divides: true });
  }
}
