using System;
using System.Diagnostics;
using System.IO;
using System.Linq;
using Tau.Core.Tests;

namespace Tau.Trainer.Tests
{
    public sealed class TextTests
    {
        private static readonly string[] Awkward =
        {
            "plain", "two words", string.Empty, "it's", "say \"so\"", "C:\\folder\\", "a\\\"b", "\\\\server\\x y\\", "ü ß 漢 😀",
            "$HOME `id` $(id)", "a;b|c&d", "tab\there", "line\nbreak", "%PATH%", "*", "--flag=a b", "\\", "'", "\"",
        };

        [Test]
        public void ArgumentsArriveByTheRulesOfDotNet()
        {
            string[] words = new[] { "-c", "printf '%s\\0' \"$@\"", "sh" }.Concat(Awkward).ToArray();
            Assert.Sequence(Awkward, Heard(CommandLine.Join(words, ArgumentRules.Windows)));
        }

        [Test]
        public void ArgumentsArriveByTheRulesOfAShell()
        {
            string script = "printf '%s\\0' " + CommandLine.Join(Awkward, ArgumentRules.Shell);
            Assert.Sequence(Awkward, Heard(CommandLine.Join(new[] { "-c", script }, ArgumentRules.Windows)));
        }

        [Test]
        public void DotNetItselfHasTheRulesOfWindows()
        {
            Assert.Equal(ArgumentRules.Windows, CommandLine.Here);
        }

        [Test]
        public void JsonIsRead()
        {
            JsonNode node = JsonNode.Parse(
                " {\"a\": [1, -2.5e3, \"x\\n\\u00fc\\ud83d\\ude00\\\"\", true, false, null], \"b\": {\"c\": {}}, \"d\":[]}\r\n");
            Assert.Equal(6, node["a"].Items.Count);
            Assert.Equal(-2500.0, node["a"].Items[1].Number.Value);
            Assert.Equal("x\nü😀\"", node["a"].Items[2].Text);
            Assert.True(node["a"].Items[3].IsTrue && !node["a"].Items[4].IsTrue);
            Assert.True(node["a"].Items[5] == JsonNode.Missing && node["b"]["c"]["none"]["at all"].Text == null);
            Assert.Equal(0, node["d"].Items.Count);
            Assert.True(node["a"].Items[2].Number == null && node["a"].Text == null && node["b"].Fields.Count == 1);
        }

        [Test]
        public void WhatIsNotJsonIsRefused()
        {
            string[] wrong =
            {
                string.Empty, "{", "{\"a\"}", "{\"a\":}", "{a:1}", "[1 2]", "[1,", "\"open", "\"\\x\"", "\"\\u12\"", "tru", "1 2",
                "nul", "{\"a\":1,}x", "-", "1\0",
                new string('[', 1000) + new string(']', 1000),
            };
            foreach (string text in wrong)
            {
                Assert.Throws<FormatException>(() => JsonNode.Parse(text), text);
                Assert.True(JsonNode.Read(text) == JsonNode.Missing, text);
            }
        }

        [Test]
        public void TextsAreQuotedAsTheyAreRead()
        {
            foreach (string text in Awkward.Append("\0\u001f\ud800"))
            {
                Assert.Equal(text, JsonNode.Parse(JsonNode.Quote(text)).Text);
            }
        }

        [Test]
        public void AFileIsFollowedByWholeLines()
        {
            using (var place = new Place())
            {
                var file = new LineFile(place["log"]);
                Assert.Equal(0, file.Read().Count);
                place.Write("log", "one\r\nzwei ü\nthr");
                Assert.Sequence(new[] { "one", "zwei ü" }, file.Read());
                Assert.Equal(0, file.Read().Count);
                File.AppendAllText(place["log"], "ee\n" + new string('x', 100000) + "\n");
                Assert.Sequence(new[] { "three", new string('x', 100000) }, file.Read());
            }
        }

        [Test]
        public void AFileIsWrittenWholeOrNotAtAll()
        {
            using (var place = new Place())
            {
                string path = place["a/b"];
                Whole.Write(path, partial => File.WriteAllText(partial, "first"));
                Whole.Write(path, partial => File.WriteAllText(partial, "second"));
                Assert.Equal("second", File.ReadAllText(path));
                var error = Assert.Throws<TrainerException>(() => Whole.Write(path, partial =>
                {
                    File.WriteAllText(partial, "ha");
                    throw new IOException("no room.");
                }));
                Assert.Equal(path + " cannot be written (no room): free it, and try again.", error.Message);
                Assert.Equal("second", File.ReadAllText(path));
                Assert.True(Directory.GetFiles(place["a"]).All(file => file == path || file.EndsWith("~")));
            }
        }

        private static string[] Heard(string arguments)
        {
            var info = new ProcessStartInfo("/bin/sh", arguments) { RedirectStandardOutput = true };
            using (Process process = Process.Start(info))
            {
                string[] said = process.StandardOutput.ReadToEnd().Split('\0');
                process.WaitForExit();
                return said.Take(said.Length - 1).ToArray();
            }
        }
    }
}
