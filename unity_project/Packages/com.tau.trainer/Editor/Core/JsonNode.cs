using System;
using System.Collections.Generic;
using System.Globalization;
using System.Text;

namespace Tau.Trainer
{
    /// <summary>
    /// One value of a JSON text, read only. Fields and items that do not exist are <see cref="Missing"/>, so you can
    /// ask for a field of a field without checks.
    /// </summary>
    public sealed class JsonNode
    {
        /// <summary>A value that does not exist, or null.</summary>
        public static readonly JsonNode Missing = new JsonNode(null);

        private static readonly IReadOnlyDictionary<string, JsonNode> NoFields = new Dictionary<string, JsonNode>();

        private readonly object _value;

        /// <summary>A value: text, double, bool, list of nodes, nodes by name, or null.</summary>
        internal JsonNode(object value)
        {
            _value = value;
        }

        /// <summary>The text; null if the value is of another type.</summary>
        public string Text => _value as string;

        /// <summary>The number; null if the value is of another type.</summary>
        public double? Number => _value as double?;

        /// <summary>Whether the value is `true`.</summary>
        public bool IsTrue => _value is bool known && known;

        /// <summary>The items of a list; empty if the value is of another type.</summary>
        public IReadOnlyList<JsonNode> Items => _value as IReadOnlyList<JsonNode> ?? Array.Empty<JsonNode>();

        /// <summary>The fields of an object; empty if the value is of another type.</summary>
        public IReadOnlyDictionary<string, JsonNode> Fields =>
            _value as IReadOnlyDictionary<string, JsonNode> ?? NoFields;

        /// <summary>A field of an object.</summary>
        public JsonNode this[string name] => Fields.TryGetValue(name, out JsonNode found) ? found : Missing;

        /// <summary>Reads a text.</summary>
        /// <exception cref="FormatException">It is not JSON, or is nested too deeply.</exception>
        public static JsonNode Parse(string text)
        {
            var reader = new JsonReader(text);
            JsonNode value = reader.Value(0);
            reader.End();
            return value;
        }

        /// <summary>Reads a text; returns <see cref="Missing"/> if it is not JSON.</summary>
        public static JsonNode Read(string text)
        {
            try
            {
                return Parse(text);
            }
            catch (FormatException)
            {
                return Missing;
            }
        }

        /// <summary>A text as JSON, with its quotes.</summary>
        public static string Quote(string text)
        {
            var quoted = new StringBuilder("\"");
            foreach (char letter in text)
            {
                if (letter == '"' || letter == '\\')
                {
                    quoted.Append('\\').Append(letter);
                }
                else if (letter < ' ' || char.IsSurrogate(letter))
                {
                    quoted.Append("\\u").Append(((int)letter).ToString("x4", CultureInfo.InvariantCulture));
                }
                else
                {
                    quoted.Append(letter);
                }
            }
            return quoted.Append('"').ToString();
        }
    }
}
