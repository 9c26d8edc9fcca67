const { content } = await files.list_directory({ path: "/data" })
const names = content.split("\n").filter(line => line.startsWith("[FILE]")).map(line => line.slice(7))
const texts = await Promise.all(names.map(name => files.read_text_file({ path: "/data/" + name })))
return names.filter((_, i) => texts[i].content.includes("TODO"))
