using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Text;

namespace Tau.Core
{
    /// <summary>Values in messages as the Python side of this project writes them, so that both say the same.</summary>
    internal static class PythonText
    {
        /// <summary>A number with at most six significant digits, as printf's %g.</summary>
        public static string General(double value)
        {
            return NotFinite(value) ?? Notation(value, Scientific(value, 5), 6, string.Empty);
        }

        /// <summary>A decoded JSON value as Python's repr writes it.</summary>
        public static string Repr(object value)
        {
            switch (value)
            {
                case null:
                    return "None";
                case bool flag:
                    return flag ? "True" : "False";
                case string text:
                    return Repr(text);
                case double number:
                    return Float(number);
                case JsonNumber number:
                    return number.IsInteger ? number.Integer() : Float(number.Value);
                case List<object> items:
                    return "[" + string.Join(", ", items.Select(Repr)) + "]";
                case Dictionary<string, object> members:
                    var parts = members.Select(pair => Repr(pair.Key) + ": " + Repr(pair.Value));
                    return "{" + string.Join(", ", parts) + "}";
                default:
                    throw new ArgumentException("not a JSON value: " + value.GetType().Name, nameof(value));
            }
        }

        /// <summary>A text in quotes, with everything that is not printable escaped.</summary>
        public static string Repr(string text)
        {
            var quote = text.IndexOf('\'') >= 0 && text.IndexOf('"') < 0 ? '"' : '\'';
            var result = new StringBuilder(text.Length + 2).Append(quote);
            for (var index = 0; index < text.Length; index++)
            {
                var wide = char.IsSurrogatePair(text, index);
                var code = wide ? char.ConvertToUtf32(text, index) : text[index];
                if (code == quote || code == '\\')
                {
                    result.Append('\\').Append((char)code);
                }
                else if (code == ' ' || Printable(CharUnicodeInfo.GetUnicodeCategory(text, index)))
                {
                    result.Append(text, index, wide ? 2 : 1);
                }
                else
                {
                    result.Append(Escape(code));
                }
                index += wide ? 1 : 0;
            }
            return result.Append(quote).ToString();
        }

        private static string Float(double value)
        {
            if (NotFinite(value) != null)
            {
                return NotFinite(value);
            }
            var scientific = string.Empty;
            for (var digits = 0; digits < 17; digits++)
            {
                scientific = Scientific(value, digits);
                if (double.Parse(scientific, NumberStyles.Float, CultureInfo.InvariantCulture).Equals(value))
                {
                    break;
                }
            }
            return Notation(value, scientific, 16, ".0");
        }

        private static string NotFinite(double value)
        {
            if (double.IsNaN(value))
            {
                return "nan";
            }
            return double.IsInfinity(value) ? (value > 0.0 ? "inf" : "-inf") : null;
        }

        /// <summary>Positional where the exponent lies in -4 .. places-1, else scientific.</summary>
        private static string Notation(double value, string scientific, int places, string whole)
        {
            var mark = scientific.IndexOf('E');
            var power = scientific.Substring(mark + 1);
            var exponent = int.Parse(power, NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture);
            var digits = scientific.Substring(0, mark).Trim('-').Replace(".", string.Empty).TrimEnd('0');
            digits = digits.Length == 0 ? "0" : digits;
            var negative = value < 0.0 || (value.Equals(0.0) && 1.0 / value < 0.0);
            var sign = negative ? "-" : string.Empty;
            if (exponent < -4 || exponent >= places)
            {
                var size = Math.Abs(exponent).ToString("00", CultureInfo.InvariantCulture);
                return sign + WithPoint(digits, 1, string.Empty) + (exponent < 0 ? "e-" : "e+") + size;
            }
            if (exponent < 0)
            {
                return sign + "0." + new string('0', -exponent - 1) + digits;
            }
            return sign + WithPoint(digits.PadRight(exponent + 1, '0'), exponent + 1, whole);
        }

        private static string WithPoint(string digits, int before, string whole)
        {
            return digits.Length > before
                ? digits.Substring(0, before) + "." + digits.Substring(before)
                : digits + whole;
        }

        /// <summary>One digit, so many more after the point, and the exponent.</summary>
        private static string Scientific(double value, int digits)
        {
            var form = "E" + digits.ToString(CultureInfo.InvariantCulture);
            return value.ToString(form, CultureInfo.InvariantCulture);
        }

        private static bool Printable(UnicodeCategory category)
        {
            switch (category)
            {
                case UnicodeCategory.Control:
                case UnicodeCategory.Format:
                case UnicodeCategory.Surrogate:
                case UnicodeCategory.PrivateUse:
                case UnicodeCategory.OtherNotAssigned:
                case UnicodeCategory.LineSeparator:
                case UnicodeCategory.ParagraphSeparator:
                case UnicodeCategory.SpaceSeparator:
                    return false;
                default:
                    return true;
            }
        }

        private static string Escape(int code)
        {
            switch (code)
            {
                case '\t':
                    return "\\t";
                case '\n':
                    return "\\n";
                case '\r':
                    return "\\r";
                default:
                    var form = code <= 0xFF ? "\\x{0:x2}" : code <= 0xFFFF ? "\\u{0:x4}" : "\\U{0:x8}";
                    return string.Format(CultureInfo.InvariantCulture, form, code);
            }
        }
    }
}
