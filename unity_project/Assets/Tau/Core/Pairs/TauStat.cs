namespace Tau.Core
{
    /// <summary>One statistic that a game reports to its trainer.</summary>
    public struct TauStat
    {
        /// <summary>A statistic.</summary>
        public TauStat(string key, float value, TauStatKind kind)
        {
            Key = key;
            Value = value;
            Kind = kind;
        }

        /// <summary>Its name.</summary>
        public string Key { get; }

        /// <summary>Its value.</summary>
        public float Value { get; }

        /// <summary>How several values are joined.</summary>
        public TauStatKind Kind { get; }

        /// <summary>A mean, to be averaged with others of its key.</summary>
        internal static TauStat Mean(string key, double sum, long count)
        {
            return new TauStat(key, (float)(sum / count), TauStatKind.Average);
        }
    }
}
