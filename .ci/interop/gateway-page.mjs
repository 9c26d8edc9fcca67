// The content of the approval page.
import assert from "node:assert/strict";
import { eventually } from "./browser.mjs";

export const cardOf = (page, number = 0) => page.locator(".pending .card").nth(number);
export const isWaiting = (page, count) => eventually(async () => assert.equal(await page.locator(".pending .card").count(), count));
export const outcomes = (page) => page.locator(".decided .outcome").allTextContents();
