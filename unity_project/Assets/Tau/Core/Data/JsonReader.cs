using System;
using System.Collections.Generic;
using System.Globalization;
using System.Text;

namespace Tau.Core
{
    /// <summary>One pass over a JSON text. Faults are <see cref="JsonFault"/>s.</summary>
    internal sealed class JsonReader
    {
        /// <summary>Nesting that is still read: far beyond any data set, and far below the end of a stack.</summary>
        public const int MaxDepth = 256;

        private readonly string _text;
        private readonly bool _keepNumbers;
        private readonly StringBuilder _buffer = new StringBuilder();
        private int _position;
        private int _depth;

        /// <summary>A reader of <paramref name="text"/>.</summary>
        /// <param name="text">The whole text.</param>
        /// <param name="keepNumbers">Give numbers as <see cref="JsonNumber"/> instead of double.</param>
        public JsonReader(string text, bool keepNumbers)
        {
            _text = text;
            _keepNumbers = keepNumbers;
        }

        /// <summary>The one value of the text.</summary>
        public object ReadAll()
        {
            SkipBlanks();
            var value = ReadValue();
            SkipBlanks();
            if (_position < _text.Length)
            {
                throw Fault("Extra data", _position);
            }
            return value;
        }

        private char Current => _position < _text.Length ? _text[_position] : '\0';

        private object ReadValue()
        {
            switch (Current)
            {
                case '{':
                    return Nested(ReadObject());
                case '[':
                    return Nested(ReadArray());
                case '"':
                    return ReadString();
                case 't' when Take("true"):
                    return true;
                case 'f' when Take("false"):
                    return false;
                case 'n' when Take("null"):
                    return null;
                default:
                    return ReadNumber();
            }
        }

        private object Nested(object value)
        {
            _depth--;
            return value;
        }

        private void Enter()
        {
            if (++_depth > MaxDepth)
            {
                var limit = MaxDepth.ToString(CultureInfo.InvariantCulture);
                throw Fault("Nested deeper than " + limit + " levels", _position);
            }
            _position++;
            SkipBlanks();
        }

        private Dictionary<string, object> ReadObject()
        {
            Enter();
            var members = new Dictionary<string, object>();
            if (TakeIf('}'))
            {
                return members;
            }
            while (true)
            {
                if (Current != '"')
                {
                    throw Fault("Expecting property name enclosed in double quotes", _position);
                }
                var name = ReadString();
                SkipBlanks();
                Expect(':');
                SkipBlanks();
                members[name] = ReadValue();
                SkipBlanks();
                if (TakeIf('}'))
                {
                    return members;
                }
                Expect(',');
                SkipBlanks();
            }
        }

        private List<object> ReadArray()
        {
            Enter();
            var items = new List<object>();
            if (TakeIf(']'))
            {
                return items;
            }
            while (true)
            {
                items.Add(ReadValue());
                SkipBlanks();
                if (TakeIf(']'))
                {
                    return items;
                }
                Expect(',');
                SkipBlanks();
            }
        }

        private string ReadString()
        {
            var start = _position++;
            _buffer.Clear();
            while (_position < _text.Length)
            {
                var letter = _text[_position];
                if (letter == '"')
                {
                    _position++;
                    return _buffer.ToString();
                }
                if (letter < ' ')
                {
                    throw Fault("Invalid control character at", _position);
                }
                _position++;
                _buffer.Append(letter == '\\' ? ReadEscape(start) : letter);
            }
            throw Fault("Unterminated string starting at", start);
        }

        private char ReadEscape(int start)
        {
            if (_position >= _text.Length)
            {
                throw Fault("Unterminated string starting at", start);
            }
            var letter = _text[_position++];
            switch (letter)
            {
                case '"':
                case '\\':
                case '/':
                    return letter;
                case 'b':
                    return '\b';
                case 'f':
                    return '\f';
                case 'n':
                    return '\n';
                case 'r':
                    return '\r';
                case 't':
                    return '\t';
                case 'u':
                    return ReadUnit();
                default:
                    throw Fault("Invalid \\escape", _position - 2);
            }
        }

        /// <summary>Four hexadecimal digits: one UTF-16 unit; two of them in a row make a surrogate pair.</summary>
        private char ReadUnit()
        {
            var code = 0;
            for (var digit = 0; digit < 4; digit++)
            {
                var place = _position + digit;
                if (place >= _text.Length || !Uri.IsHexDigit(_text[place]))
                {
                    throw Fault("Invalid \\uXXXX escape", _position);
                }
                code = (code * 16) + Uri.FromHex(_text[place]);
            }
            _position += 4;
            return (char)code;
        }

        private object ReadNumber()
        {
            var start = _position;
            if (!Take("NaN") && !Take("Infinity") && !Take("-Infinity"))
            {
                _position = JsonNumber.End(_text, start);
            }
            if (_position == start)
            {
                throw Fault("Expecting value", start);
            }
            var literal = _text.Substring(start, _position - start);
            return _keepNumbers ? (object)new JsonNumber(literal) : JsonNumber.Parse(literal);
        }

        private void SkipBlanks()
        {
            while (_position < _text.Length && " \t\n\r".IndexOf(_text[_position]) >= 0)
            {
                _position++;
            }
        }

        private bool Take(string word)
        {
            var found = string.CompareOrdinal(_text, _position, word, 0, word.Length) == 0;
            _position += found ? word.Length : 0;
            return found;
        }

        private bool TakeIf(char letter)
        {
            var found = _position < _text.Length && _text[_position] == letter;
            _position += found ? 1 : 0;
            return found;
        }

        private void Expect(char letter)
        {
            if (!TakeIf(letter))
            {
                throw Fault("Expecting '" + letter + "' delimiter", _position);
            }
        }

        private JsonFault Fault(string what, int position) => new JsonFault(what, _text, position);
    }
}
