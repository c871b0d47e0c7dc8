using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Threading;

namespace Tau.Core.Tests
{
    /// <summary>The JSON reader.</summary>
    public sealed class JsonTests
    {
        [Test]
        public void ValuesOfEveryKind()
        {
            var value = (Dictionary<string, object>)Json.Parse(
                " {\"a\": [1, -2.5e3, true, false, null, \"x\", {}, []],\r\n\t\"b\" : {\"c\": 0} } ");
            var items = (List<object>)value["a"];
            Assert.Sequence(new object[] { 1.0, -2500.0, true, false, null, "x" }, items.Take(6));
            Assert.Equal(0, ((Dictionary<string, object>)items[6]).Count);
            Assert.Equal(0, ((List<object>)items[7]).Count);
            Assert.Equal(0.0, (double)((Dictionary<string, object>)value["b"])["c"]);
        }

        [Test]
        public void EscapesAndUnicode()
        {
            Assert.Equal("\" \\ / \b \f \n \r \t", (string)Json.Parse("\"\\\" \\\\ \\/ \\b \\f \\n \\r \\t\""));
            Assert.Equal("é中€\u007F", (string)Json.Parse("\"\\u00e9\\u4E2D€\u007F\""));
            Assert.Equal("\U0001F600|\U0001F600", (string)Json.Parse("\"\\ud83d\\uDE00|\U0001F600\""));
            Assert.Equal(0xD83D, ((string)Json.Parse("\"\\ud83d\""))[0], 0.0, "a lone surrogate is kept");
            Assert.Equal("\0", (string)Json.Parse("\"\\u0000\""));
        }

        [Test]
        public void Numbers()
        {
            var cases = new Dictionary<string, double>
            {
                ["0"] = 0.0, ["-0.0"] = -0.0, ["12345678901234567890"] = 12345678901234567890.0, 
                ["1e-7"] = 1e-7, ["1.7976931348623157e308"] = double.MaxValue,
                ["0.1"] = 0.1, ["1E+2"] = 100.0, ["5e-324"] = double.Epsilon,
                ["1e999"] = double.PositiveInfinity, ["-1e999"] = double.NegativeInfinity, ["NaN"] = double.NaN,
                ["Infinity"] = double.PositiveInfinity, ["-Infinity"] = double.NegativeInfinity,
                ["0.30000000000000004"] = 0.1 + 0.2,
            };
            foreach (var entry in cases)
            {
                Assert.Equal(entry.Value, (double)Json.Parse(entry.Key), 0.0, entry.Key);
            }
        }

        [Test]
        public void TheCultureDoesNotMatter()
        {
            var before = Thread.CurrentThread.CurrentCulture;
            try
            {
                var german = (CultureInfo)CultureInfo.InvariantCulture.Clone();
                german.NumberFormat.NumberDecimalSeparator = ",";
                german.NumberFormat.NegativeSign = "~";
                Thread.CurrentThread.CurrentCulture = german;
                Assert.Equal(-1.5, (double)Json.Parse("-1.5"));
                Assert.Contains("is -0.5 but", Assert.Throws<TauException>(
                    () => RewardFormulas.Binary(new float[1], new float[1], -0.5, 1)).Message);
                Assert.Throws<TauException>(() => Json.Parse("1,5"));
            }
            finally
            {
                Thread.CurrentThread.CurrentCulture = before;
            }
        }

        [Test]
        public void FaultsHaveLineAndColumn()
        {
            foreach (Dictionary<string, object> entry in (List<object>)TestData.Vectors["json"])
            {
                var error = Assert.Throws<TauException>(() => Json.Parse((string)entry["text"]));
                Assert.Equal("The text is not JSON (" + entry["error"] + "); correct it there.", error.Message);
            }
        }

        [Test]
        public void MoreFaults()
        {
            var texts = new[]
            {
                "[", "[1,]", "{\"a\":}", "{\"a\":1,}", "{1:2}", "'a'", "+1", ".5", "1e", "--1", "\"\\u12g4\"",
                "\"\\u12",
                "\"\\", "[1 2]", "tRue", "nulls", "\uFEFF1", "\"a\nb\"", "]", "{\"a\":1", "// x\n1", "\u00A01",
            };
            foreach (var text in texts)
            {
                Assert.Contains(": line ", Assert.Throws<TauException>(() => Json.Parse(text)).Message);
            }
        }

        [Test]
        public void TheLastOfSeveralMembersCounts()
        {
            var value = (Dictionary<string, object>)Json.Parse("{\"a\": 1, \"a\": 2}");
            Assert.Equal(2.0, (double)value["a"]);
        }

        [Test]
        public void DepthIsLimited()
        {
            Json.Parse(new string('[', 256) + new string(']', 256));
            var error = Assert.Throws<TauException>(() => Json.Parse(new string('[', 100_000)));
            Assert.Contains("Nested deeper than 256 levels: line 1 column 257 (char 256)", error.Message);
            var flat = "[" + string.Join(",", Enumerable.Repeat("[{}]", 1000)) + "]";
            Assert.Equal(1000, ((List<object>)Json.Parse(flat)).Count, "siblings are not nested");
        }
    }
}
