// A server over stdio, in all versions, that lists the entries of a file, which are not valid, and a good one of each kind.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { answerTo } from "./entries.mjs";

const rows = JSON.parse(readFileSync(process.argv[2], "utf8"));
const entries = Object.fromEntries(Object.entries(rows).map(([member, list]) => [member, list.map(({ entry }) => entry)]));
for await (const line of createInterface(process.stdin)) {
  const answer = answerTo(entries, JSON.parse(line));
  if (answer) process.stdout.write(JSON.stringify(answer) + "\n");
}
