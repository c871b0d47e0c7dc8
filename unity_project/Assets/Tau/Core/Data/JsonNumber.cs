using System;
using System.Globalization;

namespace Tau.Core
{
    /// <summary>A number of a JSON text as it was written, for messages that quote it.</summary>
    internal sealed class JsonNumber
    {
        private readonly string _text;

        public JsonNumber(string text)
        {
            _text = text;
        }

        /// <summary>Whether it was written without fraction and exponent.</summary>
        public bool IsInteger => _text.IndexOfAny(new[] { '.', 'e', 'E', 'N', 'I' }) < 0;

        /// <summary>The nearest double; infinite where it is larger than any.</summary>
        public double Value => Parse(_text);

        /// <summary>An integer as Python writes it: without the sign of a zero.</summary>
        public string Integer()
        {
            return _text == "-0" ? "0" : _text;
        }

        /// <summary>Position after the number at <paramref name="start"/>; the same where there is none.</summary>
        public static int End(string text, int start)
        {
            var end = start + (start < text.Length && text[start] == '-' ? 1 : 0);
            var digits = Digits(text, end);
            if (digits == 0)
            {
                return start;
            }
            end += text[end] == '0' ? 1 : digits;
            if (end < text.Length && text[end] == '.' && Digits(text, end + 1) > 0)
            {
                end += 1 + Digits(text, end + 1);
            }
            if (end < text.Length && (text[end] | 0x20) == 'e')
            {
                var sign = end + 1 < text.Length && (text[end + 1] == '+' || text[end + 1] == '-') ? 1 : 0;
                var size = Digits(text, end + 1 + sign);
                end += size > 0 ? 1 + sign + size : 0;
            }
            return end;
        }

        /// <summary>The nearest double to a JSON number, NaN and Infinity included.</summary>
        public static double Parse(string text)
        {
            switch (text)
            {
                case "NaN":
                    return double.NaN;
                case "Infinity":
                    return double.PositiveInfinity;
                case "-Infinity":
                    return double.NegativeInfinity;
            }
            try
            {
                return double.Parse(text, NumberStyles.Float, CultureInfo.InvariantCulture);
            }
            catch (OverflowException)
            {
                return text[0] == '-' ? double.NegativeInfinity : double.PositiveInfinity; // older runtimes
            }
        }

        private static int Digits(string text, int start)
        {
            var end = start;
            while (end < text.Length && text[end] >= '0' && text[end] <= '9')
            {
                end++;
            }
            return end - start;
        }
    }
}
