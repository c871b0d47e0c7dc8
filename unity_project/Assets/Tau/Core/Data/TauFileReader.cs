using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Text;

namespace Tau.Core
{
    /// <summary>
    /// Tau's JSON schema, read without stopping at the first fault. A malformed row becomes a problem and is left out;
    /// only a file that is no Tau file at all is an error. Rows count from 1 within their section.
    /// </summary>
    internal sealed class TauFileReader
    {
        public const string Training = "training_data";
        public const string Evaluation = "evaluation_data";

        private static readonly string[] Roles = { "User", "Agent" };
        private static readonly string[] Labels = { "domain", "context", "system" };

        private readonly string _source;
        private readonly List<Problem> _problems;

        private TauFileReader(string source, List<Problem> problems)
        {
            _source = source;
            _problems = problems;
        }

        /// <summary>The well-formed messages of both sections, training first; faults become problems.</summary>
        /// <exception cref="TauException">No UTF-8, no JSON, or no list `training_data`.</exception>
        public static List<TauMessage>[] Read(Stream json, string source, List<Problem> problems)
        {
            var reader = new TauFileReader(source, problems);
            if (!(reader.Decode(json) is Dictionary<string, object> data))
            {
                throw new TauException(
                    "The data file " + source
                    + " holds no JSON object; it needs `training_data` and `evaluation_data`.");
            }
            return new[] { reader.ReadSection(data, Training), reader.ReadSection(data, Evaluation) };
        }

        private object Decode(Stream json)
        {
            try
            {
                using (var bytes = new MemoryStream())
                {
                    json.CopyTo(bytes);
                    var text = new UTF8Encoding(false, true).GetString(bytes.GetBuffer(), 0, (int)bytes.Length);
                    return new JsonReader(text.StartsWith("\uFEFF", System.StringComparison.Ordinal)
                        ? text.Substring(1) : text, true).ReadAll();
                }
            }
            catch (DecoderFallbackException error)
            {
                throw new TauException(
                    "The data file " + _source + " cannot be read (" + error.Message.TrimEnd('.')
                    + "); give a UTF-8 file in Tau's JSON form.", error);
            }
            catch (JsonFault fault)
            {
                throw new TauException(
                    "The data file " + _source + " is not JSON (" + fault.Message + "); correct it there.", fault);
            }
        }

        private List<TauMessage> ReadSection(Dictionary<string, object> data, string section)
        {
            var messages = new List<TauMessage>();
            if (!data.TryGetValue(section, out var value) && section == Evaluation)
            {
                return messages;
            }
            if (!(value is List<object> rows))
            {
                throw new TauException(
                    "The data file " + _source + " has no list `" + section + "`; add it in Tau's JSON form.");
            }
            for (var row = 1; row <= rows.Count; row++)
            {
                var reason = ReadMessage(rows[row - 1], section, row, out var message);
                if (reason == null)
                {
                    messages.Add(message);
                }
                else
                {
                    _problems.Add(new Problem(section, row, "malformed", reason));
                }
            }
            return messages;
        }

        /// <summary>Why the row is malformed, or null.</summary>
        private static string ReadMessage(object entry, string section, int row, out TauMessage message)
        {
            message = null;
            if (!(entry is Dictionary<string, object> members))
            {
                return "is not an object";
            }
            foreach (var label in Labels)
            {
                if (members.TryGetValue(label, out var value) && !(value is string))
                {
                    return "`" + label + "` is not a text";
                }
            }
            members.TryGetValue("turns", out var turns);
            var texts = new List<string>();
            var reason = ReadTurns(turns, texts);
            var domain = members.TryGetValue("domain", out var text) ? TextKey.Strip((string)text) : string.Empty;
            message = new TauMessage(section, row, domain, texts);
            return reason;
        }

        /// <summary>Why the turns are malformed, or null; their texts are added in order.</summary>
        private static string ReadTurns(object value, List<string> texts)
        {
            if (!(value is List<object> turns) || turns.Count == 0)
            {
                return "`turns` is not a list with at least two turns";
            }
            if (turns.Count % 2 != 0)
            {
                return "has " + Number(turns.Count) + " turns, but every User turn needs an Agent turn";
            }
            for (var position = 1; position <= turns.Count; position++)
            {
                var expected = Roles[(position - 1) % 2];
                var turn = turns[position - 1] as Dictionary<string, object>;
                object role = null;
                turn?.TryGetValue("role", out role);
                if (!expected.Equals(role))
                {
                    var found = PythonText.Repr(turn == null ? turns[position - 1] : role);
                    return "turn " + Number(position) + " must have role `" + expected + "`, not " + found;
                }
                turn.TryGetValue("message", out var message);
                var text = message is string written ? TextKey.Strip(written) : string.Empty;
                if (text.Length == 0)
                {
                    return "turn " + Number(position) + " has no `message` text";
                }
                texts.Add(text);
            }
            return null;
        }

        private static string Number(int value)
        {
            return value.ToString(CultureInfo.InvariantCulture);
        }
    }
}
