import { once } from "node:events";
import { createServer } from "node:net";

/**
 * Returns a port of 127.0.0.1 at which no process listens. It is below the ports that the system gives to
 * connections and to other servers, which could take it before the caller does.
 */
export async function freePort() {
  for (let left = 100; left > 0; left--) {
    const port = 10_000 + Math.floor(Math.random() * 20_000);
    const probe = createServer().listen(port, "127.0.0.1");
    try {
      await once(probe, "listening");
    } catch {
      continue;
    }
    probe.close();
    await once(probe, "close");
    return port;
  }
  throw new Error("no free port was found");
}
