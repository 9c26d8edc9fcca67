// The page shows exactly the arguments of the request.
import assert from "node:assert/strict";
import { eventually } from "./browser.mjs";

const HOSTILE = {
  "a number beyond 2^53": '{"n":9007199254740993,"m":1.0,"e":1E400,"z":-0}',
  "names that stand there twice": '{"path":"/tmp/a","path":"/etc/passwd","path":null}',
  "escapes": String.raw`{"a":"\u0041\/\\\"\t\b\f\r\ud83c\udf5e","\u0061":1}`,
  "text that is written from right to left": '{"file":"cod\u202egpj.exe","a\u2066b":"\u2067c\u2069"}',
  "characters without width": '{"to":"ad\u200ba@ex\u00adample.org\ufeff","x":"\u3164\u115f\u2800\u034f"}',
  "separators of lines": '{"a":"x\u2028y\u2029z\u0085"}',
  "tags and variations": '{"a":"b\u{e0041}\u{e0062}\ufe0f"}',
  "marks on marks": `{"a":"x${"\u0335".repeat(40)}","b":"\u20dd"}`,
  "Hebrew and Arabic": '{"a/\u05d0/\u05d1":"\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd 12 /\u0645\u0631\u062d\u0628\u0627/x"}',
  "markup": '{"a":"</pre><script>alert(1)</script><img src=x onerror=alert(2)>","<b>":"&lt;&amp;"}',
  "code": '{"a":"${1+1} {{title}} `x` javascript:alert(1)","__proto__":{"constructor":1}}',
  "text of several lines": String.raw`{"text":"one\n},\n\"approved\": true,\n\ttwo\n","more":[1,[],{},[[{"a":[]}]]]}`,
  "no arguments": "{}",
  "white space": '{ "a" :\t[ 1 ,\r\n 2 ] , "b" : { } }',
  "a thousand levels": `{"a":${"[".repeat(900)}1${"]".repeat(900)}}`,
};

/** A JSON text without white space between its tokens. */
const dense = (json) => json.replace(/("(?:[^"\\]|\\.)*")|\s+/gs, "$1");

/** Reads the displayed arguments back into a JSON text without white space. */
const shown = (pre) => pre.evaluate((node) => {
  const textOf = (part) => {
    if (part.className === "break") return "";
    if (part.className === "hidden") return String.fromCodePoint(parseInt(part.textContent.slice(2), 16));
    return part.childNodes?.length ? [...part.childNodes].map(textOf).join("") : part.textContent;
  };
  return [...node.children].map(textOf).join("");
});

const cardOf = (page, number = 0) => page.locator(".pending .card").nth(number);

export async function shows_arguments_exactly(stage) {
  const host = await stage.host();
  const { page } = await stage.visit(host.link);
  for (const [tool, json] of Object.entries(HOSTILE)) host.ask({ tool, arguments: json });
  for (const [name, json] of Object.entries(HOSTILE)) {
    const card = page.getByRole("article", { name: `files.${name}`, exact: true });
    assert.equal(await shown(card.locator(".arguments")), dense(json), name);
    await eventually(async () => assert.equal(await card.locator(".proof").getAttribute("data-state"), "exact", name));
    assert.deepEqual(await card.locator(".arguments :not(span, bdi)").count(), 0, `${name}: markup has become elements`);
    // All drawn characters are visible.
    const drawn = await card.locator(".arguments").evaluate((node) => node.textContent);
    assert.doesNotMatch(drawn, /(?![ \n])[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]|\p{M}{4}/u, name);
  }
}

export async function draws_characters_in_their_order(stage) {
  const host = await stage.host();
  const { page } = await stage.visit(host.link);
  host.ask({ arguments: '{"p":"/a/\u05d0/\u05d1/1/\u0627/z","\u05d2":"\u05d3","q":3}' });
  // Every letter must be drawn right of those before it, or below: no word here has two letters.
  const places = await cardOf(page).locator(".arguments").evaluate((pre) => {
    const found = [];
    const walker = document.createTreeWalker(pre, NodeFilter.SHOW_TEXT);
    for (let node; (node = walker.nextNode()); ) {
      for (let i = 0; i < node.length; i++) {
        if (/\s/.test(node.data[i])) continue;
        const range = document.createRange();
        range.setStart(node, i);
        range.setEnd(node, i + 1);
        const { left, top, height } = range.getBoundingClientRect();
        found.push({ character: node.data[i], left, middle: top + height / 2 });
      }
    }
    return found;
  });
  for (const [i, { character, left, middle }] of places.entries()) {
    const before = places[i - 1];
    const below = before && middle > before.middle + 12;
    assert.ok(!before || below || left >= before.left, `${character} is drawn left of ${before?.character}`);
  }
}

export async function shows_names_exactly(stage) {
  const host = await stage.host();
  const { page } = await stage.visit(host.link);
  host.ask({
    server: "</h3><img src=x onerror=alert(1)>", tool: "re\u202eda", caller: "ada\u200b@example.org",
    launch: "a".repeat(64), toolDigest: "b".repeat(64),
  });
  const card = cardOf(page);
  assert.equal(await card.locator("h3").textContent(), "</h3><img src=x onerror=alert(1)>.reU+202Eda");
  assert.equal(await card.locator(".hidden").count(), 3);
  assert.equal(await card.locator("[data-of=caller]").textContent(), "adaU+200B@example.org");
  assert.equal(await card.locator("[data-of=launch]").textContent(), "a".repeat(64));
  assert.equal(await card.locator("[data-of=toolDigest]").textContent(), "b".repeat(64));
  assert.match(await card.locator(".left").textContent(), /^(5:00|4:5\d)$/);
  assert.equal(await page.locator("img").count(), 0);
}

export async function shows_long_arguments(stage) {
  const host = await stage.host();
  const { page } = await stage.visit(host.link);
  const files = Array.from({ length: 1500 }, (_, i) => `{"path":"/srv/${i}","bytes":${2n ** 60n + BigInt(i)},"text":"line\\nline"}`);
  const json = `{"files":[${files}],"text":"${"0123456789abcdef".repeat(300)}"}`;
  assert.ok(json.length > 100_000, String(json.length));
  const id = host.ask({ arguments: json });
  assert.equal(await shown(cardOf(page).locator(".arguments")), json);
  await cardOf(page).locator(".arguments").evaluate((pre) => pre.scrollTo(0, pre.scrollHeight));
  await cardOf(page).locator(".accept").click();
  assert.equal((await host.answer(id)).approved, true);
}

export async function accepts_only_what_was_in_view(stage) {
  const host = await stage.host();
  const { page } = await stage.visit(host.link, { viewport: { width: 900, height: 900 } });
  const lines = "\\n".repeat(400);
  const id = host.ask({ arguments: `{"text":"harmless${lines}","command":"rm -rf /home"}` });
  const card = cardOf(page);
  const accept = card.locator(".accept");
  // Rejecting needs no scrolling. The time until acceptance is allowed has passed.
  await eventually(async () => assert.equal(await card.locator(".reject").getAttribute("aria-disabled"), "false"));
  await new Promise((resolve) => setTimeout(resolve, 1500));
  await eventually(async () => assert.match(await card.locator(".extent").textContent(), /^\d\d? of 40\d lines shown: scroll/));
  assert.equal(await accept.getAttribute("aria-disabled"), "true");
  await accept.click({ force: true });
  await page.keyboard.press("j");
  await page.keyboard.press("a");
  assert.equal(await page.locator(".pending .card").count(), 1);
  await card.locator(".arguments").evaluate((pre) => pre.scrollTo(0, pre.scrollHeight / 2));
  await eventually(async () => assert.match(await card.locator(".extent").textContent(), /^2\d\d of 40\d lines shown: scroll/));
  assert.equal(await accept.getAttribute("aria-disabled"), "true");
  await card.locator(".arguments").evaluate((pre) => pre.scrollTo(0, pre.scrollHeight));
  await eventually(async () => assert.equal(await accept.getAttribute("aria-disabled"), "false"));
  await eventually(async () => assert.match(await card.locator(".extent").textContent(), /^(40\d) of \1 lines shown$/));
  await accept.click();
  assert.equal((await host.answer(id)).approved, true);
}

export async function marks_spaces(stage) {
  const host = await stage.host();
  const { page } = await stage.visit(host.link);
  host.ask({ arguments: String.raw`{"a":"one  \ntwo ","b":"x${" ".repeat(300)}y z","c":"{ \"k\": \"v\" }"}` });
  const spaces = cardOf(page).locator(".arguments .spaces");
  await eventually(async () => assert.deepEqual(await spaces.evaluateAll((all) => all.map((node) => node.dataset.count)), ["2", "1", "300"]));
  assert.match(await spaces.first().evaluate((node) => getComputedStyle(node, "::after").content), /\u2423/);
}

export async function refuses_to_accept_what_lacks_its_digest(stage) {
  const host = await stage.host();
  const { page, sent } = await stage.visit(host.link, {
    before: (page) => page.routeWebSocket(/approval$/, (socket) => {
      const server = socket.connectToServer();
      server.onMessage((frame) => socket.send(frame.replace("/tmp/bread.txt", "/tmp/bread.tx7")));
    }),
  });
  const id = host.ask();
  const card = cardOf(page);
  await eventually(async () => assert.equal(await card.locator(".proof").getAttribute("data-state"), "wrong"));
  await eventually(async () => assert.equal(await card.locator(".reject").getAttribute("aria-disabled"), "false"));
  assert.equal(await card.locator(".accept").getAttribute("aria-disabled"), "true");
  await card.locator(".accept").click({ force: true });
  await page.keyboard.press("a");
  await card.locator(".reject").click();
  assert.equal((await host.answer(id)).approved, false);
  assert.deepEqual(sent.filter((frame) => frame.includes("true")), []);
}

export async function says_when_it_cannot_check_a_digest(stage) {
  const host = await stage.host();
  const { page } = await stage.visit(host.link, {
    before: (page) => page.addInitScript(() => Object.defineProperty(crypto, "subtle", { value: undefined })),
  });
  const id = host.ask();
  await eventually(async () => assert.equal(await cardOf(page).locator(".proof").getAttribute("data-state"), "unchecked"));
  await cardOf(page).locator(".accept").click();
  assert.equal((await host.answer(id)).approved, true);
}
