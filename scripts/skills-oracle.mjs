// Writes skills, and compares what `rawko skills check` and skills-ref say of them. See check-skills-oracle.sh.
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { validate } from "skills-ref";

const [rawko, project] = process.argv.slice(2);

const names = [
  "pdf", "a", "a1", "1a", "42", "data-analysis", "a-b-c", "x".repeat(64), "x".repeat(65), "PDF", "Pdf", "-a", "a-", "-", "a--b",
  "a_b", "a.b", "a b", "größe", "данные", "数据", "ÜBER", "a\u2014b", "true", "a/b", "a:b", "'a'",
];
const descriptions = [
  "Fills forms. Use when a form is to be filled.", "x", '""', '"   "', '"a: b"', "a: b", "|\n  two\n  lines", ">-\n  folded\n  text",
  "x".repeat(1024), "x".repeat(1025), "ü".repeat(1024), "ü".repeat(1025), "[a, b", "7",
];
const extras = [
  "", "license: MIT\n", "compatibility: Needs git\n", `compatibility: ${"x".repeat(500)}\n`, `compatibility: ${"x".repeat(501)}\n`,
  "compatibility: [git]\n", "metadata:\n  author: me\n  version: \"1.0\"\n", "allowed-tools: Bash(git:*) Read\n",
  "allowed-tools: [Read, \"Bash(git:*)\"]\n", "version: 1\n", "model: opus\nuser-invocable: true\n", "Name: x\n", "metadata: {a: {b: c}}\n",
];
const texts = [
  ["empty", ""], ["no-front", "# Text\n"], ["not-closed", "---\nname: not-closed\ndescription: x\n"], ["blank-first", "\n---\nname: blank-first\n---\n"],
  ["a-list", "---\n- name\n---\n"], ["a-text", "---\njust text\n---\n"], ["no-name", "---\ndescription: x\n---\n"],
  ["no-description", "---\nname: no-description\n---\n"], ["no-fields", "---\n---\nText.\n"], ["no-body", "---\nname: no-body\ndescription: x\n---\n"],
  ["crlf", "---\r\nname: crlf\r\ndescription: x\r\n---\r\nText.\r\n"], ["twice", "---\nname: twice\nname: twice\ndescription: x\n---\n"],
  ["anchors", "---\nname: &a anchors\ndescription: x\nlicense: *a\n---\n"],
];
// Where rawko follows the text of the specification and this library does not check it.
const stricter = [
  ["tools-mapping", "name: tools-mapping\ndescription: x\nallowed-tools: {a: b}\n"],
  ["metadata-text", "name: metadata-text\ndescription: x\nmetadata: text\n"],
  // JavaScript's text of an absent value is "null".
  ["no-text", "name: no-text\ndescription: # only a comment\n"],
  // rawko's reader of YAML refuses a tab after a key, everywhere.
  ["tabs", "name: tabs\ndescription:\tx\n"],
  ["list-for-text", "name: list-for-text\ndescription: [a]\n"],
];

const cases = [];
const add = (folder, text, differs = false) => cases.push({ folder, text, differs });
const skill = (fields) => `---\n${fields}---\nDo it.\n`;
const folderOf = (name) => (/[/']/.test(name) ? "other" : name);
let number = 0;
const inFolder = (group, folder, text, differs) => add(join(`${group}${number++}`, folder), text, differs);
for (const name of names) {
  inFolder("n", folderOf(name), skill(`name: ${name}\ndescription: x\n`));
  inFolder("n", "other", skill(`name: ${name}\ndescription: x\n`));
  for (const extra of extras) inFolder("n", folderOf(name), skill(`name: ${name}\ndescription: x\n${extra}`));
}
for (const description of descriptions) {
  for (const extra of extras) inFolder("d", "pdf", skill(`name: pdf\ndescription: ${description}\n${extra}`));
}
for (const [folder, text] of texts) inFolder("t", folder, text);
for (const [folder, fields] of stricter) inFolder("s", folder, skill(fields), true);

for (const { folder, text } of cases) {
  mkdirSync(join(project, folder), { recursive: true });
  writeFileSync(join(project, folder, "SKILL.md"), text);
}
mkdirSync(join(project, "missing", "skill"), { recursive: true });
cases.push({ folder: "missing/skill", text: "(no SKILL.md)", differs: false });

let ours;
try {
  ours = execFileSync(rawko, ["skills", "check", "--json", ...cases.map((one) => one.folder)], { cwd: project, maxBuffer: 1 << 28 });
} catch (failed) {
  // Status 1 says that some are not valid.
  if (failed.status !== 1) throw failed;
  ours = failed.stdout;
}
const checked = JSON.parse(ours).skills;
let wrong = 0;
let valid = 0;
for (const [at, one] of cases.entries()) {
  const theirs = await validate(join(project, one.folder));
  const agree = checked[at].valid === (theirs.length === 0);
  valid += checked[at].valid ? 1 : 0;
  if (agree === one.differs) {
    wrong += 1;
    console.error(`${one.folder}: rawko ${JSON.stringify(checked[at].faults)}, skills-ref ${JSON.stringify(theirs)}\n${one.text.slice(0, 300)}`);
  }
}
console.log(`${cases.length} skills compared with skills-ref (${valid} valid, ${stricter.length} where rawko is stricter): ${wrong} differences`);
process.exit(wrong === 0 ? 0 : 1);
