// Evaluated once, before all scripts. Its value is a function of what the host offers: send, which takes strings, and random.
// That function returns receive, which gets strings from the host. A script may replace what globals refer to, and so cheat
// itself. It does not get more than send and receive let it do, and the host checks what it gets.
(send, random) => {
  const { parse, stringify } = JSON
  const { defineProperty, freeze, create, keys, getPrototypeOf, setPrototypeOf } = Object
  const { isArray } = Array
  const text = String

  Math.random = random

  // Code is not made from text. Each kind of function has a constructor that would do that.
  delete globalThis.eval
  delete globalThis.SharedArrayBuffer
  delete Error.prepareStackTrace // it would show the functions of this file
  const refuse = function Function() {
    throw new TypeError("a script cannot make code from text (Function, eval)")
  }
  for (const f of [function () {}, async function () {}, function* () {}, async function* () {}]) {
    defineProperty(getPrototypeOf(f), "constructor", { value: refuse })
  }
  refuse.prototype = Function.prototype
  globalThis.Function = refuse

  // ownLines returns the lines of a stack that belong to the script.
  const ownLines = (stack) => text(stack ?? "").split("\n").filter((line) => line.includes("script.js")).join("\n")

  class ToolError extends Error {
    constructor(tool) {
      super("")
      defineProperty(this, "name", { value: new.target.name, configurable: true, writable: true })
      defineProperty(this, "tool", { value: tool, enumerable: true })
      defineProperty(this, "stack", { value: ownLines(this.stack), configurable: true, writable: true })
    }
  }
  class UnknownOutcome extends ToolError {}
  Object.assign(globalThis, { ToolError, UnknownOutcome })

  // plain is what JSON has for a value that JSON.stringify would lose.
  const plain = (value) => {
    if (typeof value === "bigint") return text(value)
    if (value instanceof Map) return Object.fromEntries(value)
    if (value instanceof Set) return [...value]
    if (value instanceof Error) return { error: `${value.name}: ${value.message}`, ...value }
    return value
  }

  // encode returns the JSON of a value, and calls found with each promise and each object in it, and where they are.
  const encode = (value, root, found) => {
    const places = new Map()
    return stringify(value, function (key, inner) {
      const holder = places.get(this)
      const place = holder === undefined ? root : isArray(this) ? `${holder}[${key}]` : `${holder}.${key}`
      if (typeof inner === "object" && inner !== null) {
        const replaced = found(inner, place)
        if (replaced !== undefined) return replaced
        inner = plain(inner)
        if (typeof inner === "object" && inner !== null) places.set(inner, place)
        return inner
      }
      return plain(inner)
    })
  }

  let limits, calls = 0
  const pending = new Map()

  // callTool calls a tool. The error is made here, so that its stack shows the line of the call.
  const callTool = (tool, input) => {
    const error = new ToolError(tool)
    const refused = (why) => {
      error.message = `${tool}: ${why}`
      return Promise.reject(error)
    }
    if (input === undefined) input = {}
    if (typeof input !== "object" || input === null || isArray(input)) {
      return refused(`the arguments must be one object, such as ${tool}({name: value})`)
    }
    let promised, json
    try {
      json = encode(input, "arguments", (inner, place) => {
        if (inner instanceof Promise) promised ??= place
      })
    } catch (e) {
      return refused(`the arguments are no JSON: ${e.message}`)
    }
    if (json === undefined) return refused("the arguments are no JSON")
    if (promised !== undefined) return refused(`${promised} is a promise: await it first`)
    if (json.length > limits.arguments) return refused(`the arguments have ${json.length} characters, more than ${limits.arguments}`)
    if (calls >= limits.calls) return refused(`a script can make ${limits.calls} calls`)
    calls++
    const number = calls
    return new Promise((resolve, reject) => {
      pending.set(number, { resolve, reject, error })
      send("call", tool, json)
    })
  }

  const missing = (server, known, name) => {
    const parts = name.split("_").filter((part) => part.length > 2)
    let near = known.filter((other) => parts.some((part) => other.includes(part)))
    if (near.length === 0 || known.length <= 20) near = known
    const rest = near.length > 20 ? `, and ${near.length - 20} more` : ""
    return `${server} has no tool ${name}. It has ${near.slice(0, 20).join(", ")}${rest}`
  }

  // newServer returns the object of a server. Reading a name that it does not have is an error that says which ones it has.
  const newServer = (server, tools) => {
    const known = keys(tools)
    const functions = create(null)
    for (const name of known) functions[name] = (input) => callTool(tools[name], input)
    return new Proxy(freeze(functions), {
      get(target, name) {
        if (name in target) return target[name]
        if (typeof name === "symbol" || name === "then" || name === "toJSON" || name === "constructor" || name === "handle") return undefined
        throw new ReferenceError(missing(server, known, name))
      },
    })
  }

  const log = (...values) => {
    send("log", values.map((value) => {
      if (typeof value !== "object" || value === null) return text(value)
      try {
        return encode(value, "", (inner) => (inner instanceof Promise ? "[a promise]" : undefined))
      } catch {
        return text(value)
      }
    }).join(" "))
  }
  globalThis.console = freeze({ log, info: log, debug: log, warn: log, error: log })

  const end = (value) => {
    const notes = [], handles = []
    let json = encode(value, "value", (inner, place) => {
      if (inner instanceof Promise) {
        if (notes.length < 20) notes.push(`${place.slice(0, 200)} is a promise that was not awaited`)
        return "[a promise that was not awaited]"
      }
      if (typeof inner.handle === "string" && inner.handle.length < 20 && handles.length < 100) handles.push(inner.handle)
    })
    if (typeof value === "function") notes.push("the value is a function: call it, or return its result")
    send("end", json ?? "null", stringify(notes), stringify(handles))
  }

  const fail = (error) => {
    if (error instanceof Error) return send("fail", text(error.name), text(error.message), ownLines(error.stack))
    let thrown = text(error)
    if (typeof error === "object" && error !== null) {
      try {
        thrown = encode(error, "", () => {})
      } catch {}
    }
    send("fail", "", `the script has thrown ${thrown}`, "")
  }

  const settle = (number, use) => {
    const call = pending.get(number)
    pending.delete(number)
    if (call !== undefined) use(call)
  }

  // receive gets what the host sends: what it is, and its parts.
  return (what, first, second, third) => {
    switch (what) {
      case "begin": {
        const begin = parse(first)
        limits = begin.limits
        for (const name of keys(begin.servers)) {
          defineProperty(globalThis, name, { value: newServer(name, begin.servers[name]), writable: true, configurable: true })
        }
        return
      }
      case "script":
        first().then(end).catch(fail)
        return
      case "result":
        settle(+first, (call) => call.resolve(parse(second)))
        return
      case "error":
        settle(+first, ({ error, reject }) => {
          if (second === "unknown") setPrototypeOf(error, UnknownOutcome.prototype), (error.name = "UnknownOutcome")
          error.message = third
          reject(error)
        })
        return
    }
  }
}
