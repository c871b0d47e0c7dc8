using System;
using System.Collections.Generic;
using System.Globalization;
using System.Text;

namespace Tau.Trainer
{
    /// <summary>Reads one JSON text from its start to its end.</summary>
    internal sealed class JsonReader
    {
        private const int MostLevels = 100;

        private readonly string _text;
        private int _at;

        public JsonReader(string text)
        {
            _text = text;
        }

        public JsonNode Value(int level)
        {
            if (level > MostLevels)
            {
                throw Wrong();
            }
            switch (Next())
            {
                case '{':
                    return Object(level);
                case '[':
                    return List(level);
                case '"':
                    return new JsonNode(String());
                case 't':
                    return Word("true", new JsonNode(true));
                case 'f':
                    return Word("false", new JsonNode(false));
                case 'n':
                    return Word("null", JsonNode.Missing);
                default:
                    return Digits();
            }
        }

        public void End()
        {
            if (Next() != '\0' || _at < _text.Length)
            {
                throw Wrong();
            }
        }

        /// <summary>The next letter that is not a blank, not yet taken; zero at the end.</summary>
        private char Next()
        {
            while (_at < _text.Length && " \t\r\n".IndexOf(_text[_at]) >= 0)
            {
                _at++;
            }
            return _at < _text.Length ? _text[_at] : '\0';
        }

        private bool Take(char letter)
        {
            bool there = Next() == letter;
            _at += there ? 1 : 0;
            return there;
        }

        private void Need(char letter)
        {
            if (!Take(letter))
            {
                throw Wrong();
            }
        }

        private JsonNode Object(int level)
        {
            var fields = new Dictionary<string, JsonNode>();
            Need('{');
            while (!Take('}'))
            {
                if (fields.Count > 0)
                {
                    Need(',');
                }
                if (Next() != '"')
                {
                    throw Wrong();
                }
                string name = String();
                Need(':');
                fields[name] = Value(level + 1);
            }
            return new JsonNode(fields);
        }

        private JsonNode List(int level)
        {
            var items = new List<JsonNode>();
            Need('[');
            while (!Take(']'))
            {
                if (items.Count > 0)
                {
                    Need(',');
                }
                items.Add(Value(level + 1));
            }
            return new JsonNode(items);
        }

        private string String()
        {
            var text = new StringBuilder();
            for (_at++; _at < _text.Length && _text[_at] != '"'; _at++)
            {
                text.Append(_text[_at] == '\\' ? Escaped() : _text[_at]);
            }
            if (_at >= _text.Length)
            {
                throw Wrong();
            }
            _at++;
            return text.ToString();
        }

        private char Escaped()
        {
            _at++;
            int known = _at < _text.Length ? "\"\\/bfnrt".IndexOf(_text[_at]) : -1;
            if (known >= 0)
            {
                return "\"\\/\b\f\n\r\t"[known];
            }
            const NumberStyles Hexadecimal = NumberStyles.AllowHexSpecifier;
            bool four = _at + 4 < _text.Length && _text[_at] == 'u';
            string digits = four ? _text.Substring(_at + 1, 4) : string.Empty;
            if (!int.TryParse(digits, Hexadecimal, CultureInfo.InvariantCulture, out int code))
            {
                throw Wrong();
            }
            _at += 4;
            return (char)code;
        }

        private JsonNode Word(string word, JsonNode value)
        {
            if (string.CompareOrdinal(_text, _at, word, 0, word.Length) != 0)
            {
                throw Wrong();
            }
            _at += word.Length;
            return value;
        }

        private JsonNode Digits()
        {
            int start = _at;
            while (_at < _text.Length && "+-.eE0123456789".IndexOf(_text[_at]) >= 0)
            {
                _at++;
            }
            string digits = _text.Substring(start, _at - start);
            if (!double.TryParse(digits, NumberStyles.Float, CultureInfo.InvariantCulture, out double number))
            {
                throw Wrong();
            }
            return new JsonNode(number);
        }

        private FormatException Wrong()
        {
            return new FormatException("not JSON, at position " + _at);
        }
    }
}
