namespace UnityEngine
{
    /// <summary>A colour; nothing is coloured here.</summary>
    public readonly struct Color
    {
        /// <summary>A colour, from 0 to 1.</summary>
        public Color(float r, float g, float b, float a = 1f)
        {
        }
    }

    /// <summary>A picture.</summary>
    public sealed class Texture2D : Object
    {
        /// <summary>A white one.</summary>
        public static Texture2D whiteTexture { get; } = new Texture2D();
    }

    /// <summary>A font.</summary>
    public sealed class Font : Object
    {
        /// <summary>The first of some fonts that the system has.</summary>
        public static Font CreateDynamicFontFromOSFont(string[] fontnames, int size)
        {
            return new Font { name = fontnames[0] };
        }
    }

    /// <summary>Room at four sides.</summary>
    public sealed class RectOffset
    {
        /// <summary>In pixels.</summary>
        public RectOffset(int left, int right, int top, int bottom)
        {
        }
    }

    /// <summary>Colours of a style.</summary>
    public sealed class GUIStyleState
    {
        /// <summary>Of texts.</summary>
        public Color textColor { get; set; }
    }

    /// <summary>How texts look.</summary>
    public sealed class GUIStyle
    {
        /// <summary>A plain one.</summary>
        public GUIStyle()
        {
        }

        /// <summary>One like another.</summary>
        public GUIStyle(GUIStyle other)
        {
        }

        /// <summary>The font.</summary>
        public Font font { get; set; }

        /// <summary>In pixels.</summary>
        public int fontSize { get; set; }

        /// <summary>Long lines go on in the next one.</summary>
        public bool wordWrap { get; set; }

        /// <summary>Texts hold tags.</summary>
        public bool richText { get; set; }

        /// <summary>Room outside.</summary>
        public RectOffset margin { get; set; }

        /// <summary>Room inside.</summary>
        public RectOffset padding { get; set; }

        /// <summary>Usual colours.</summary>
        public GUIStyleState normal { get; } = new GUIStyleState();
    }

    /// <summary>Usual styles.</summary>
    public sealed class GUISkin
    {
        /// <summary>Of texts.</summary>
        public GUIStyle label { get; } = new GUIStyle();

        /// <summary>Of lines to type into.</summary>
        public GUIStyle textField { get; } = new GUIStyle();
    }
}
