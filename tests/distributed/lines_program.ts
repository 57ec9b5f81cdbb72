/** Each rank prints long lines at the same moments, between short ones. */
import { distributed } from "../../mod.ts";

using group = distributed.init();
for (let k = 0; k < 10; k++) {
  await group.barrier();
  console.log(
    JSON.stringify({ rank: group.rank, k, text: `${group.rank}`.repeat(1000 * (k + 1)) }),
  );
  console.log(`short ${group.rank}`);
}
console.log(`rank ${group.rank}: good`);
