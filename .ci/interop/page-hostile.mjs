// Hostile text in any field of a request stays text, hides nothing, and another site cannot show the page.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { once } from "node:events";
import { eventually } from "./browser.mjs";

const TALL = { viewport: { width: 900, height: 2400 } };
const FIELDS = ["server", "tool", "caller", "launch", "toolDigest", "title", "description", "rule", "reason", "arguments"];

const HOSTILE = {
  "a script": "<script>pwned()</script>",
  "a handler": "\"><img src=x onerror=pwned()><svg onload=pwned()>",
  "a link": "<a href=javascript:pwned()>x</a>[x](javascript:pwned())",
  "a frame": "</pre></dd><iframe srcdoc='<script>parent.pwned()</script>'></iframe>",
  "a style": "</style><style>.accept{position:fixed;inset:0}</style>",
  "a form": "</form><form action=//evil.example><button>Accept</button></form>",
  "a template": "{{title}}${pwned()}<template shadowrootmode=open></template>",
  "characters that change the order": "a\u202egpj.exe\u2066\u2069\u200f",
  "characters without width": "a\u200bb\ufeffc\u00add\u3164\u{e0041}",
  "control characters": "a\u0000\u001b[2J\u0007b\u0085\u2028c",
  "the end of the launch": `x sha256:${"d".repeat(64)} sha256:${"e".repeat(64)}`,
  "line breaks": "a\nAccept\r\n\n\nAsked because of the rule safe",
  "marks": `x${"\u0335".repeat(30)}`,
  "a name of a member": "__proto__",
};

const cardOf = (page, number = 0) => page.locator(".pending .card").nth(number);

export async function keeps_hostile_text_of_every_field_a_text(stage) {
  const host = await stage.host();
  const { page } = await stage.visit(host.link, {
    ...TALL,
    before: (page) => page.addInitScript(() => { window.pwned = () => { window.wasPwned = true; }; }),
  });
  host.ask({ title: "plain", description: "plain", rule: "plain", reason: "plain", launch: "plain", toolDigest: "plain" });
  await cardOf(page).waitFor();
  const waiting = page.locator(".pending .card");
  const inspect = () => waiting.evaluateAll((cards) => cards.map((card) => ({
    elements: [...card.querySelectorAll(":not(span, bdi, .row, .about *, wbr)")].map((e) => e.localName).join(" "),
    drawn: card.innerText,
    accepts: card.querySelectorAll(".accept").length,
  })));
  // Only the fields' own markup may differ from a plain card: characters that are made visible, and lines.
  const [{ elements: plain }] = await inspect();
  const frames = page.frames().length;
  let count = 1;
  for (const field of FIELDS) {
    const ids = Object.values(HOSTILE).map((text) => {
      const value = field === "arguments" ? JSON.stringify({ [text]: text }) : text;
      return host.ask({ title: "plain", description: "plain", rule: "plain", reason: "plain", launch: "plain", toolDigest: "plain", [field]: value });
    });
    await cardOf(page, ids.length).waitFor();
    for (const { elements, drawn, accepts } of (await inspect()).slice(1)) {
      const what = `hostile text in ${field}:\n${drawn}`;
      assert.equal(elements, plain, what);
      assert.doesNotMatch(drawn, /(?![ \n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]|\p{M}{4}/u, what);
      assert.equal(accepts, 1, what);
      count++;
    }
    for (const id of ids) host.withdraw(id);
    await eventually(async () => assert.equal(await waiting.count(), 1, field));
  }
  assert.equal(count, 1 + FIELDS.length * Object.keys(HOSTILE).length);
  assert.equal(await page.evaluate(() => window.wasPwned), undefined);
  assert.equal(page.frames().length, frames);
  assert.equal(await page.locator("img, iframe, svg, script:not([src])").count(), 0, "the log has markup of a field");
}

export async function shows_a_long_launch_completely(stage) {
  const host = await stage.host();
  const { page } = await stage.visit(host.link, TALL);
  const launch = `/bin/one (env ${Array.from({ length: 300 }, (_, i) => `V${i}=${"v".repeat(40)}`).join(", ")}, PYTHONPATH=/tmp/evil)`;
  host.ask({ launch: `${launch} sha256:${"c".repeat(64)}` });
  const shown = cardOf(page).locator("[data-of=launch]");
  assert.equal(await shown.textContent(), launch);
  // Nothing is cut by the layout.
  const { clientHeight, scrollHeight, clientWidth, scrollWidth, overflow } = await shown.evaluate((node) => ({
    clientHeight: node.clientHeight, scrollHeight: node.scrollHeight, clientWidth: node.clientWidth, scrollWidth: node.scrollWidth,
    overflow: getComputedStyle(node).textOverflow,
  }));
  assert.ok(scrollHeight <= clientHeight && scrollWidth <= clientWidth && overflow !== "ellipsis", JSON.stringify({ clientHeight, scrollHeight, clientWidth, scrollWidth, overflow }));
}

export async function is_shown_in_no_frame(stage) {
  const host = await stage.host();
  const embed = createServer((_, response) => {
    response.setHeader("Content-Type", "text/html");
    response.end(`<iframe src="${host.link}"></iframe><object data="${host.link}"></object><embed src="${host.link}">`);
  });
  embed.listen(0, "127.0.0.1");
  await once(embed, "listening");
  try {
    const origin = `http://localhost:${embed.address().port}/`; // another origin, of the same site as the page or not
    stage.expected = /frame-ancestors|a request to/;
    const { page } = await stage.visit(origin);
    await eventually(async () => assert.ok(host.requests.length >= 1));
    for (const frame of page.frames().slice(1)) {
      const shown = await frame.locator(".connection, .accept").count().catch((error) => {
        if (!frame.isDetached()) throw error;
        return 0; // it was removed
      });
      assert.equal(shown, 0, frame.url());
    }
    host.ask();
    assert.equal(host.requests.filter(({ request }) => /approval$/.test(request.split(" ").at(-1))).length, 0, "a framed page has connected");
  } finally {
    embed.close();
  }
}
