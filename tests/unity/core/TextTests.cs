using System.Collections.Generic;
using System.Linq;

namespace Tau.Core.Tests
{
    /// <summary>Keys of texts, their order, and values as messages quote them.</summary>
    public sealed class TextTests
    {
        [Test]
        public void KeysAreThoseOfTheSharedVectors()
        {
            foreach (List<object> pair in (List<object>)Section["keys"])
            {
                Assert.Equal((string)pair[1], TextKey.Of((string)pair[0]));
                Assert.Equal((string)pair[1], TextKey.Of((string)pair[1]));
            }
        }

        [Test]
        public void TextsAreOrderedByCodePoint()
        {
            var order = ((List<object>)Section["order"]).Cast<string>().ToList();
            Assert.Sequence(order, Enumerable.Reverse(order).OrderBy(text => text, TextKey.Order));
            for (var left = 0; left < order.Count; left++)
            {
                for (var right = 0; right < order.Count; right++)
                {
                    var sign = System.Math.Sign(TextKey.Compare(order[left], order[right]));
                    Assert.Equal(left.CompareTo(right), sign, left + " and " + right);
                }
            }
        }

        [Test]
        public void StripsTheSameBlanksAsAKeyDoes()
        {
            Assert.Equal("a  b", TextKey.Strip("\u2003\t\u001Ca  b\u0085\n"));
            Assert.Equal(string.Empty, TextKey.Strip(" \u00A0"));
            Assert.Equal("\u200Ba", TextKey.Strip("\u200Ba"));
        }

        [Test]
        public void ValuesAreQuotedAsPythonQuotesThem()
        {
            var cases = new Dictionary<string, string>
            {
                ["null"] = "None", ["true"] = "True", ["false"] = "False", ["12"] = "12", ["-0"] = "0",
                ["1.50"] = "1.5",
                ["-0.0"] = "-0.0", ["1e16"] = "1e+16", ["1e15"] = "1000000000000000.0", ["0.0001"] = "0.0001",
                ["0.00001"] = "1e-05", ["123456789012345678901234567890"] = "123456789012345678901234567890",
                ["0.1"] = "0.1", ["2.5e-10"] = "2.5e-10", ["1e400"] = "inf", ["NaN"] = "nan", ["5e-324"] = "5e-324",
                ["1.7976931348623157e308"] = "1.7976931348623157e+308", ["[]"] = "[]", ["{}"] = "{}",
                ["[1, \"a\", {\"b\": null}]"] = "[1, 'a', {'b': None}]",
                ["\"it's\""] = "\"it's\"", ["\"say \\\"it's\\\"\""] = "'say \"it\\'s\"'", ["\"a\\\\b\""] = "'a\\\\b'",
                ["\"\\u0000\\t\\u007f\\u00ad\\u2028\\ud800\""] = "'\\x00\\t\\x7f\\xad\\u2028\\ud800'",
                ["\"\U000E0001é\U0001F600\""] = "'\\U000e0001é\U0001F600'",
            };
            foreach (var entry in cases)
            {
                Assert.Equal(entry.Value, PythonText.Repr(new JsonReader(entry.Key, true).ReadAll()), entry.Key);
            }
        }

        [Test]
        public void NumbersInMessagesHaveSixDigits()
        {
            var cases = new Dictionary<double, string>
            {
                [0.0] = "0", [-0.5] = "-0.5", [2500.0] = "2500", [0.1f] = "0.1", [123456.7] = "123457", [1e6] = "1e+06",
                [1234567.0] = "1.23457e+06", [0.0001] = "0.0001", [0.00001234567] = "1.23457e-05", [1e100] = "1e+100",
                [double.NaN] = "nan", [double.NegativeInfinity] = "-inf", [999999.5] = "1e+06", [100.0] = "100",
            };
            foreach (var entry in cases)
            {
                Assert.Equal(entry.Value, PythonText.General(entry.Key));
            }
        }

        private static Dictionary<string, object> Section => (Dictionary<string, object>)TestData.Vectors["text_keys"];
    }
}
