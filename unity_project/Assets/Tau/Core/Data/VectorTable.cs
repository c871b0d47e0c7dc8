using System;
using System.Collections.Generic;

namespace Tau.Core
{
    /// <summary>Embeddings of unit length by text key; an embedding of length zero counts as missing.</summary>
    internal sealed class VectorTable
    {
        private readonly Dictionary<string, float[]> _rows = new Dictionary<string, float[]>(StringComparer.Ordinal);

        public VectorTable(string encoder)
        {
            Encoder = encoder;
        }

        /// <summary>Name of the text encoder that made the vectors.</summary>
        public string Encoder { get; }

        /// <summary>
        /// Adds an embedding, scaled to unit length. The last of several with the same key counts, as long as it has a
        /// length at all.
        /// </summary>
        public void Add(string key, double[] vector)
        {
            var norm = Math.Sqrt(PairwiseSum.Of(new Squares(vector), 0, vector.Length));
            if (norm > 0.0)
            {
                _rows[key] = Array.ConvertAll(vector, value => (float)(value / norm));
            }
        }

        /// <summary>The embedding under a key.</summary>
        public bool TryGet(string key, out float[] vector)
        {
            return _rows.TryGetValue(key, out vector);
        }

        /// <summary>The embedding of a text that has one.</summary>
        public float[] Vector(string text)
        {
            return _rows[TextKey.Of(text)];
        }

        private readonly struct Squares : ITerms
        {
            private readonly double[] _values;

            public Squares(double[] values)
            {
                _values = values;
            }

            public double At(int index)
            {
                return _values[index] * _values[index];
            }
        }
    }
}
